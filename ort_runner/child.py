"""The parent's side: a session in a child process, so that a crash, a hang or a lack of memory becomes a finding."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from fxport.diagnostics import rules
from fxport.diagnostics.crashes import without_stack
from fxport.diagnostics.own import import_folder
from fxport.ort_runner.failures import Failure, tidy
from fxport.ort_runner.frames import Message, receive, send
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.providers import Choice, provider_named
from fxport.ort_runner.session import Opened, Port

# -P: a file in the user's folder must not stand for a module of ours or of numpy.
WORKER = (sys.executable, "-P", "-m", "fxport.ort_runner.worker")
LEAST_TIME_LIMIT = 60.0
"""Seconds that a request may take, however small the model is."""

SLOWEST_READ = 20e6
"""Bytes of a model's files a second: for larger ones there is more time."""

PATIENCE = 5.0  # seconds that a child gets to end by itself


class ChildSession:
    """A session in a child, which is started at `open` and again at the next `open` after it died.

    `time_limit` is in seconds and holds for each request; `time_limit_of` the model by default. `command` is the
    child's; tests put doubles there.
    """

    def __init__(
        self, model: Path, provider: str, *, time_limit: float | None = None, command: Sequence[str] = WORKER
    ) -> None:
        if provider != "auto":
            provider_named(provider)
        self._model, self._provider = model, provider
        self._limit = time_limit_of(model) if time_limit is None else time_limit
        self._command = tuple(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def open(self, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()) -> Opened:
        """Raises Failure: of the model, or of the child."""
        self.close()
        return self.open_next(self._model, lean=lean, optimize=optimize, disabled=disabled)

    def open_next(
        self, model: Path, *, lean: bool = False, optimize: bool = True, disabled: Sequence[str] = ()
    ) -> Opened:
        """Open a session for a model in the place of the last one, in the same child if it lives. Raises Failure."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        settings = {"lean": lean, "optimize": optimize, "disabled": list(disabled)}
        request = {"model": str(model.absolute()), "provider": self._provider, **settings}
        reply, _ = self._ask({"do": "open", **request})
        choice = Choice(provider_named(reply["provider"]), reply["asked"], reply["reason"])
        return Opened(_ports(reply["inputs"]), _ports(reply["outputs"]), choice, _ports(reply["state"]))

    def _start(self) -> None:
        self.close()
        # A file, because a pipe that nobody reads could fill up and block the child; `close` closes it.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment()
        )

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Raises Failure: of a kernel, or of the child, which then is fatal."""
        return self._ask({"do": "run"}, inputs)[1]

    def close(self) -> None:
        """End the child, by force if it does not end by itself."""
        process, self._process = self._process, None
        if process is not None:
            end(process)
            if process.stdout is not None:
                process.stdout.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._process is not None:
            self._process.kill()
        self.close()

    def _ask(
        self, message: Message, arrays: Mapping[str, np.ndarray] | None = None
    ) -> tuple[Message, dict[str, np.ndarray]]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the session is not open")
        late = threading.Event()
        watch = threading.Timer(self._limit, _kill_late, (process, late))
        watch.daemon = True
        watch.start()
        try:
            send(process.stdin, message, arrays)
            reply, outputs = receive(process.stdout)
        except (EOFError, OSError) as error:
            watch.cancel()
            raise self._death(process, late.is_set()) from error
        finally:
            watch.cancel()
        if reply.get("out_of_memory"):
            raise Failure(rules.RUNTIME_FAILED, {"error": "the process ran out of memory"})
        if (failure := reply.get("failure")) is not None:
            rule = rules.RULES[failure["rule"]]
            raise Failure(rule, failure["facts"], node=failure["node"], fatal=failure["fatal"])
        return reply, outputs

    def _death(self, process: subprocess.Popen[bytes], late: bool) -> Failure:
        end(process)
        if late:
            how = f"it did not answer within {self._limit:g} seconds and was stopped"
        else:
            how = how_it_ended(process.returncode)
        return Failure(rules.RUNTIME_FAILED, {"error": how + last_words(self._errors)}, fatal=True, late=late)


def time_limit_of(model: Path) -> float:
    """Seconds that a model may take to be opened or run: more for more weights."""
    try:
        size = read_model_file(model).size()
    except (OSError, ValueError):  # it will be told when it is opened
        size = 0
    return LEAST_TIME_LIMIT + size / SLOWEST_READ


def how_it_ended(code: int) -> str:
    """The end of a child in words. A negative code is a POSIX signal, a large one a Windows status."""
    if code >= 0:
        return f"its process ended with exit code {code if code < 256 else hex(code)}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    memory = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{memory}"


def last_words(errors: IO[bytes] | None, since: int = 0) -> str:
    """The last line that a child wrote to the file of its standard error from the byte `since` on, to be added."""
    if errors is None:
        return ""
    errors.seek(since)
    lines = without_stack(errors.read().decode(errors="replace")).split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last words: {tidy(last)}" if last else ""


def end(process: subprocess.Popen[Any]) -> None:
    """End a child that ends when nobody speaks to it any more: by force if it does not."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # the child is gone, and what was left in the buffer with it
            process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_late(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def environment() -> dict[str, str]:
    """This process's, with what a child needs to import the same fxport."""
    home = import_folder()
    if home is None:
        return dict(os.environ)
    paths = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _ports(rows: Sequence[tuple[str, str, list[int | str | None]]]) -> tuple[Port, ...]:
    return tuple(Port(name, dtype, tuple(shape)) for name, dtype, shape in rows)
