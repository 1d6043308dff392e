"""Files that are written whole: what was there before stays until then, and what is no file is never replaced."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from fxport.diagnostics.paths import write_whole, written_whole

needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


def test_a_failing_block_leaves_what_was_there(tmp_path: Path) -> None:
    file = write_whole(tmp_path / "a.txt", "old")

    def fail() -> None:
        with written_whole(file) as draft:
            draft.write_text("new")
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_folders_are_made_and_modes_kept(tmp_path: Path) -> None:
    file = write_whole(tmp_path / "in" / "a.txt", "old")
    file.chmod(0o600)
    write_whole(file, b"new")
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    file, link = tmp_path / "there" / "a.txt", tmp_path / "link"
    link.symlink_to(file)
    write_whole(link, "text")
    assert link.is_symlink()
    assert file.read_text() == "text"


@needs_pipes
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "text")
    reader.join(60)
    assert got == ["text"]
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name == "nt", reason="Windows syncs no folders")
@pytest.mark.parametrize(
    ("number", "is_told"),
    [
        *((errno.EIO, True), (errno.ENOSPC, True), (errno.EDQUOT, True)),
        *((errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EACCES, False)),
    ],
)
def test_a_disk_that_fails_to_sync_a_folder_is_told(
    number: int, is_told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def failing(opened: int) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(number, os.strerror(number))
        sync(opened)

    monkeypatch.setattr(os, "fsync", failing)
    target = tmp_path / "a.txt"
    if is_told:
        with pytest.raises(OSError, match=os.strerror(number)) as raised:
            write_whole(target, "text")
        assert raised.value.filename == str(tmp_path)
    else:
        write_whole(target, "text")
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]  # renamed before, and no draft


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads every folder")
def test_a_folder_that_cannot_be_read_is_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir(mode=0o300)
    write_whole(folder / "a.txt", "text")
    folder.chmod(0o700)
    assert (folder / "a.txt").read_text() == "text"
