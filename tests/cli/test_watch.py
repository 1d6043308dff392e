"""`fxport watch`: what is exported again, how soon, what the log and the lines say, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fxport.diagnostics import Finding, Log, rules, sarif
from fxport.diagnostics.report import FailOn, Report
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.pool import Outcome
from fxport.exporter.checks.rows import row_of_source
from fxport.exporter.checks.watch import Turn, ids_of, turns
from fxport.exporter.cli import main
from fxport.exporter.cli.watch import tell
from fxport.exporter.sources.usage import UsageError

ROOT = Path(__file__).resolve().parents[2]

NET = """\
import torch

from part import scale


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * scale()


def net():
    return Net().eval(), (torch.ones(2, 4),)
"""
OTHER = "import torch\n\n\ndef other():\n    return torch.nn.ReLU().eval(), (torch.ones(3),)\n"
PATIENCE = 120.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "part.py").write_text("def scale():\n    return 2.0\n")
    (tmp_path / "other.py").write_text(OTHER)
    (tmp_path / "made").mkdir()
    return tmp_path


def task(name: str, source: str) -> Task:
    return Task(Item(name, name, source, 23, "cpu", validate=False), Terms())


@pytest.fixture
def watching(project: Path) -> Iterator[Callable[[], Turn]]:
    """The next turn of a watch over two models, one of which imports a module."""
    tasks = [task("net", "net.py:net"), task("other", "other.py:other")]
    with closing(
        turns(tasks, project, lambda each: project / "made" / f"{each.item.id}.onnx", lambda _: None)
    ) as found:
        yield lambda: next(found)


def weight_in(path: Path) -> float:
    import onnx

    (constant,) = onnx.load(path).graph.initializer
    return float(onnx.numpy_helper.to_array(constant))


def line_of(finding: Finding) -> tuple[str, int] | None:
    return None if finding.place is None else (finding.place.path, finding.place.line)


def test_what_depends_on_a_file_is_exported_when_it_is_saved(project: Path, watching: Callable[[], Turn]) -> None:
    first = watching()
    assert (first.renewed, [row.facts is not None for row in first.rows]) == (["net", "other"], [True, True])
    assert {Path(path).name for path in first.files} == {"net.py", "part.py", "other.py"}
    part = project / "part.py"
    for value in (3.0, 4.0, 5.0):  # of equal length, within a second: bytecode of the first would serve all
        part.write_text(f"def scale():\n    return {value}\n")
        turn = watching()
        assert (turn.renewed, weight_in(project / "made" / "net.onnx")) == (["net"], value)

    part.write_text("def scale(:\n")
    broken = watching()
    (finding,) = broken.rows[0].findings
    assert (finding.rule, line_of(finding)) == (rules.NOT_CHECKED, (str(part), 1))
    assert "SyntaxError" in finding.message
    assert (broken.rows[0].facts, broken.rows[1].facts is not None) == (None, True)

    part.unlink()  # an editor may do so before it puts the new file there
    assert "ModuleNotFoundError" in watching().rows[0].findings[0].message
    part.write_text("def scale():\n    return 6.0\n")
    assert (watching().renewed, weight_in(project / "made" / "net.onnx")) == (["net"], 6.0)

    (project / "other.py").write_text(OTHER.replace("return", "import ctypes; ctypes.string_at(0); return"))
    (finding,) = watching().rows[1].findings
    assert (finding.rule, line_of(finding)) == (rules.NOT_CHECKED, (str(project / "other.py"), 5))
    (project / "other.py").write_text(OTHER)
    assert watching().rows[1].facts is not None  # the worker lives


def test_a_file_saved_while_it_is_exported_is_exported_again(project: Path, watching: Callable[[], Turn]) -> None:
    """As when a formatter follows the editor: here the module rewrites itself, once."""
    writes = "import pathlib\nfile = pathlib.Path(__file__)\nfile.write_text('def scale():\\n    return 7.0\\n')\n"
    (project / "part.py").write_text(f"{writes}def scale():\n    return 2.0\n")
    assert [watching().renewed, watching().renewed] == [["net", "other"], ["net"]]
    assert weight_in(project / "made" / "net.onnx") == 7.0


def lines_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith(wanted):
            return lines
    raise AssertionError("\n".join(lines))


def run_of(log: Path) -> dict[str, Any]:
    (run,) = json.loads(log.read_text())["runs"]
    return run


@pytest.mark.usefixtures("interruptible")
def test_the_log_is_new_within_a_second_of_the_capture(project: Path) -> None:
    command = [sys.executable, "-m", "fxport", "watch", "net.py:net", "--sarif", ".sarif/fxport.sarif"]
    process = subprocess.Popen(
        command,
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = project / ".sarif" / "fxport.sarif"
    try:
        said = lines_until(process, "fxport: watching")
        assert said[0] == "fxport: exporting net"
        assert re.fullmatch(r"net: \.fxport/models/net\.onnx, \d nodes, not validated, [\d.]+ s", said[1])
        assert said[2:] == ["fxport: watching 2 files; Ctrl-C ends"]
        assert run_of(log)["results"] == []
        spent = []
        for value in range(3, 13):  # until one is not held up by what else runs on this machine
            start = time.time()
            (project / "part.py").write_text(f"def scale():\n    return {value}.0\n")
            lines_until(process, "fxport: watching")
            capture = run_of(log)["invocations"][0]["properties"]["seconds"]["capture"]
            spent.append(log.stat().st_mtime - start - capture)
            if spent[-1] < 1.0:
                break
        assert spent[-1] < 1.0, spent
        (project / "part.py").write_text("def scale():\n    return unknown\n")
        broken = lines_until(process, "fxport: watching")
        (result,) = run_of(log)["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "part.py"
        assert broken[-2] == "net: no model, 1 error; '.fxport/models/net.onnx' is of an earlier save"
        matched(broken)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (130, "fxport: interrupted\n")


def matched(lines: list[str]) -> None:
    """The problem matcher of the documentation reads these lines as one turn with one problem."""
    tasks = json.loads((ROOT / "docs" / "ci" / "vscode-tasks.json").read_text(encoding="utf-8"))["tasks"]
    (watch,) = [each for each in tasks if each["label"] == "fxport watch"]
    matcher = watch["problemMatcher"]
    background, (first, second) = matcher["background"], (each["regexp"] for each in matcher["pattern"])
    assert [bool(re.search(background["beginsPattern"], line)) for line in lines] == [True, *[False] * (len(lines) - 1)]
    assert [bool(re.search(background["endsPattern"], line)) for line in lines] == [*[False] * (len(lines) - 1), True]
    (found,) = [number for number, line in enumerate(lines) if re.match(first, line)]
    place = re.match(second, lines[found + 1])
    assert place is not None
    assert (place[1], place[2]) == ("part.py", "2")


def test_names_are_short_and_each_its_own() -> None:
    assert ids_of(["a.py:net", "b.py:other", "saved.pt2"]) == ["net", "other", "saved"]
    assert ids_of(["a.py:net", "pkg/b.py:net", "c.py:other"]) == ["a-net", "b-net", "other"]
    with pytest.raises(UsageError, match="would be 'a-net' like another one"):
        ids_of(["a.py:net", "x/a.py:net"])


def test_what_has_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "missing.py:net"]) == 2
    assert "There is no file 'missing.py'" in capsys.readouterr().err
    unknown = {"sarif": sarif.to_sarif(Log()), "facts": None, "stages": [], "place": None, "raised": None}
    outcome = Outcome(task("net", "missing.module:net"), {**unknown, "mistake": ("source", "No module.")}, None, 0.1)
    with pytest.raises(UsageError, match=r"There is no file to watch: .*No module\."):
        tell(Turn([row_of_source(outcome, tmp_path, FailOn.ERROR)], ["net"], []), Report(""), {})
