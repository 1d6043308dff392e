"""Folders that are replaced as a whole: old or new, also after a kill between two renames."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fxport.diagnostics import folders
from fxport.diagnostics.drafts import PREFIX
from fxport.diagnostics.folders import FOLDER, exchange, written_folder


def fill(target: Path, text: str) -> None:
    with written_folder(target) as draft:
        (draft / "sub").mkdir()
        (draft / "sub" / "a.txt").write_text(text)


def read(target: Path) -> str:
    return (target / "sub" / "a.txt").read_text()


@pytest.fixture(params=["at once", "by two renames"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "by two renames":
        monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    return tmp_path / "new"  # the name that drafts have, too


def test_an_earlier_folder_is_replaced(target: Path) -> None:
    fill(target, "one")
    (target / "more.txt").write_text("of the first")
    fill(target, "two")
    assert read(target) == "two"
    assert os.listdir(target) == ["sub"]
    assert os.listdir(target.parent) == ["new"]


def test_an_error_leaves_the_earlier_one(target: Path) -> None:
    fill(target, "one")
    with pytest.raises(ValueError, match="stop"), written_folder(target):
        raise ValueError("stop")
    assert read(target) == "one"
    assert os.listdir(target.parent) == ["new"]


def test_a_link_stays_one(target: Path) -> None:
    link = target.parent / "link"
    fill(target, "one")
    link.symlink_to(target)
    fill(link, "two")
    assert link.is_symlink()
    assert read(target) == "two"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_what_a_killed_process_took_away_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, replace = tmp_path / "package", os.replace
    fill(target, "one")
    monkeypatch.setattr(folders, "exchange", lambda one, other: False)

    def die(source: Path, destination: Path) -> None:
        if Path(destination) == target:
            os._exit(9)
        replace(source, destination)

    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(os, "replace", die)
        fill(target, "two")
    os.waitpid(pid, 0)
    assert not target.exists()
    assert [each for each in os.listdir(tmp_path) if each.startswith(PREFIX) and each.endswith(FOLDER)]
    with pytest.raises(ValueError, match="stop"), written_folder(target):
        raise ValueError("stop")
    assert read(target) == "one"
    assert os.listdir(tmp_path) == ["package"]


def test_names_are_exchanged_where_the_system_can(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "name.txt").write_text(folder.name)
    done = exchange(one, other)
    assert (one / "name.txt").read_text() == ("other" if done else "one")
    if done:
        with pytest.raises(FileNotFoundError):
            exchange(one, tmp_path / "nothing")
