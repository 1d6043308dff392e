"""Trials of patched sources, each in a process of its own: what the user's source does to Python ends with it.

A server imports torch once and forks for each trial; where the system has no fork, each trial starts a process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from fxport.exporter.validation.fixes.trial import Outcome
    from fxport.exporter.validation.request import Request

LONGEST_TRIAL = 600.0  # seconds
SERVER = (sys.executable, "-P", "-c", "from fxport.exporter.validation.fixes.trials import serve; serve()")
ALONE = (sys.executable, "-P", "-c", "from fxport.exporter.validation.fixes.trial import main; main()")


class Trials:
    """Runs trials while its block lasts."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None
        self._errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._errors.close()

    def run(self, request: Request, texts: Mapping[str, str]) -> Outcome:
        """The outcome of one trial; an error in it where the trial did not come to its end."""
        from fxport.exporter.validation.fixes.trial import OUTCOME, TRIAL, Outcome

        with tempfile.TemporaryDirectory(prefix="fxport-fix-") as name:
            folder, since = Path(name), self._errors.tell()
            (folder / TRIAL).write_bytes(pickle.dumps((request, dict(texts))))
            code = self._served(name) if hasattr(os, "fork") else self._alone(name)
            if code is None:
                return Outcome(error=f"the trial took longer than {LONGEST_TRIAL:g} s")
            if code or not (folder / OUTCOME).exists():
                self._errors.seek(since)
                said = self._errors.read().strip().splitlines()
                return Outcome(error=said[-1] if said else f"exit code {code}")
            return pickle.loads((folder / OUTCOME).read_bytes())

    def _served(self, folder: str) -> int | None:
        """The exit code of a trial that the server has run; None where it took too long."""
        if self._server is None:
            pipe = subprocess.PIPE
            self._server = subprocess.Popen(SERVER, stdin=pipe, stdout=pipe, stderr=self._errors, text=True)
        server, late = self._server, threading.Event()
        assert server.stdin is not None
        assert server.stdout is not None

        def stop() -> None:
            late.set()
            server.kill()

        watch = threading.Timer(LONGEST_TRIAL, stop)
        watch.start()
        try:
            server.stdin.write(f"{folder}\n")
            server.stdin.flush()
            answer = server.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            watch.cancel()
        if answer:
            return int(answer)
        self._end()
        return None if late.is_set() else 1

    def _alone(self, folder: str) -> int | None:
        command = [*ALONE, folder]
        try:
            return subprocess.run(
                command, stdout=subprocess.DEVNULL, stderr=self._errors, timeout=LONGEST_TRIAL, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return None

    def _end(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            for pipe in (server.stdin, server.stdout):
                if pipe is not None:
                    pipe.close()
            server.wait()


def preload() -> None:
    """Import PyTorch and what an export imports on use: once, and not in each fork. Starts no threads."""
    import fxport.exporter.pipeline.stages
    import fxport.exporter.validation.fixes.trial
    import fxport.exporter.validation.one  # noqa: F401


def serve() -> None:
    """The server's side: a folder a line, whose trial a fork of this process runs; its exit code is the answer."""
    preload()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the user's code prints is no answer
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(_in_fork(line.rstrip("\n")))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, file=answers, flush=True)


def _in_fork(folder: str) -> int:
    import traceback

    from fxport.exporter.validation.fixes.trial import run

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        run(Path(folder))
    except BaseException:  # noqa: BLE001  # the last line tells the parent, as that of a process of its own would
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()
    return 0
