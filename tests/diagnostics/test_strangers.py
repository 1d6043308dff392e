"""Places that a file names: of files outside of the project only the names are shown, and nothing is read."""

from __future__ import annotations

import json
import linecache
import os
from pathlib import Path

import pytest

from fxport.diagnostics import Edit, Fix, Frame, Log, Place, Step, github, html, json_log, markdown, rules, sarif, text
from fxport.diagnostics.escape import terminal
from fxport.diagnostics.formats import page
from fxport.diagnostics.limits import SOURCE
from fxport.diagnostics.strangers import link_out_of, shown_path

SECRET = "password = 'tell nobody'\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a source in it, beside one that is not to be read."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / ".git").mkdir()
    (inside / "net.py").write_text("here = 1\n")
    (inside / ".env").write_text(SECRET)
    (outside / "secret.py").write_text(SECRET)
    (inside / "link.py").symlink_to(outside / "secret.py")
    monkeypatch.chdir(inside)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("{0}/inside/net.py", "{0}/inside/net.py"),
        ("net.py", "net.py"),
        ("{0}/inside/gone.py", "{0}/inside/gone.py"),
        (__file__, __file__),  # this process has loaded it
        ("<ipython-input-1-abc>", "<ipython-input-1-abc>"),
        ("{0}/outside/secret.py", "<secret.py>"),
        ("../outside/secret.py", "<secret.py>"),
        ("{0}/inside/../outside/secret.py", "<secret.py>"),
        ("{0}/inside/link.py", "<link.py>"),
        ("{0}/inside/.env", "<.env>"),
        ("/etc/passwd", "<passwd>"),
        ("/proc/self/environ", "<environ>"),
        ("/a\0b.py", "<a\0b.py>"),
        ("\ud800.py", "<\ud800.py>"),
        ("x" * 5000 + ".py", "<" + "x" * 5000 + ".py>"),
    ],
)
def test_only_source_of_the_project_is_read(path: str, shown: str, project: Path) -> None:
    assert shown_path(path.format(project)) == shown.format(project)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_huge_files_are_not_read(project: Path) -> None:
    os.mkfifo("pipe.py")
    with open("huge.py", "wb") as file:
        file.truncate((SOURCE.bytes or 0) + 1)
    assert shown_path("pipe.py") == "<pipe.py>"
    assert shown_path("huge.py") == "<huge.py>"


def test_the_root_of_the_machine_is_no_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert shown_path(str(project / "outside" / "secret.py")) == "<secret.py>"


def test_a_log_shows_nothing_of_files_outside(project: Path) -> None:
    secret = str(project / "outside" / "secret.py")
    place = Place(secret, 1, 1, 9, stack=(Frame(secret, 1, "f"),))
    log = Log()
    log.report(
        rules.NO_ONNX_LOWERING,
        place,
        related=[place],
        steps=[Step("here", place)],
        fixes=[Fix("change it", (Edit(secret, 1, 1, 1, 9, "x"),))],
        op="aten.foo.default",
    )
    document = sarif.to_sarif(log)
    forged = json.loads(json.dumps(document).replace("tell nobody", "").replace("password", ""))
    Path("log.sarif").write_text(json.dumps(forged))
    linecache.clearcache()  # as in a process that has not made the log
    found = sarif.read_sarif("log.sarif")
    back = Log()
    back.revise(lambda _: found)
    shown = [each.render(back) for each in (text, markdown, github, json_log)]
    shown += [page("a log", "log", found), sarif.as_text(sarif.to_sarif(back)), repr(found)]
    assert html.shown(found[0]).place == "<secret.py>:1:1"
    for each in shown:
        assert "nobody" not in each
        assert "outside" not in each


def test_links_out_of_a_folder(tmp_path: Path) -> None:
    """Allow the links of Hugging Face's cache, whose files lie beside the snapshots."""
    cache, other = tmp_path / "hub" / "models--a--b", tmp_path / "other"
    snapshot, blobs = cache / "snapshots" / "0123", cache / "blobs"
    for folder in (snapshot, blobs, other):
        folder.mkdir(parents=True)
        (folder / "file").write_text("a")
    (snapshot / "config.json").symlink_to("../../blobs/file")
    (snapshot / "same.json").symlink_to("file")
    assert link_out_of(snapshot) is None
    (snapshot / "tokenizer.json").symlink_to("../../../../other/file")
    assert link_out_of(snapshot) == snapshot / "tokenizer.json"
    assert link_out_of(snapshot, ["config.json", "same.json"]) is None
    (other / "folder").symlink_to(blobs)
    assert link_out_of(other) is None


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("::error::forged", ": :error::forged"),
        ("a\n  ::set-output name=x::y", "a\n  : :set-output name=x::y"),
        ("a ::error::b", "a ::error::b"),
        ("a\r::error::b", "a\\x0d::error::b"),
        ("x ##[error]y", "x # #[error]y"),
        ("##vso[task.setvariable variable=x]y", "# #vso[task.setvariable variable=x]y"),
        ("## fxport", "## fxport"),
    ],
)
def test_no_line_is_a_command_of_ci(given: str, shown: str) -> None:
    assert terminal(given) == shown
