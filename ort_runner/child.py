"""The parent's side: a session in a child process, so that a crash, a hang or a lack of memory becomes a finding."""

from __future__ import annotations

import contextlib
import os
import re
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
from fxport.diagnostics.amounts import size
from fxport.diagnostics.crashes import name_of_signal, without_stack
from fxport.diagnostics.limits import RUN
from fxport.diagnostics.own import import_folder
from fxport.ort_runner.failures import Failure, tidy
from fxport.ort_runner.frames import Message, receive, send
from fxport.ort_runner.memory import most_memory
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.providers import Choice, provider_named
from fxport.ort_runner.runtimes import ONNXRUNTIME, provider_of
from fxport.ort_runner.session import Opened, Port

# -P: a file in the user's folder must not stand for a module of ours or of numpy.
WORKER = (sys.executable, "-P", "-m", "fxport.ort_runner.worker")
LEAST_TIME_LIMIT, LEAST_MEMORY = RUN.seconds or 0.0, RUN.memory or 0
"""Seconds that a request may take, and bytes that the child may take, however small the model is."""

SLOWEST_READ = 20e6
"""Bytes of a model's files a second: for larger ones there is more time."""

MEMORY_OF_FILES, MEMORY_OF_INPUTS, MEMORY_OF_PARENT = 6, 200, 3
"""Times the bytes of a model's files, of its inputs, and of what this process took at the most, that a child may take:
ONNX Runtime holds weights as they are read, as they are kept and as they are repacked; in this process, PyTorch has
run the same model."""

MEMORY_OF_TOKEN, TOKENS_AT_ONCE = 2_000_000, 256
"""Bytes for each token of a text, whose scores of all words and of attention are held; tokens for which there is the
time of one request."""

SHORT_OF_MEMORY = re.compile(r"bad_alloc|bad allocation|[Ff]ailed to allocate|[Cc]annot allocate|[Oo]ut of memory")

PATIENCE = 5.0  # seconds that a child gets to end by itself


class ChildSession:
    """A session in a child, which is started at `open` and again at the next `open` after it died.

    `time_limit` is in seconds and holds for each request; `time_limit_of` the model by default. `command` is the
    child's; tests put doubles there. `runtime` is a row of `RUNTIMES`.
    """

    def __init__(
        self,
        model: Path,
        provider: str,
        *,
        time_limit: float | None = None,
        command: Sequence[str] = WORKER,
        runtime: str = ONNXRUNTIME,
    ) -> None:
        if provider != "auto":
            provider_named(provider)
        self._model, self._provider, self._runtime = model, provider, runtime
        self._size = size_of(model)
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
        settings = {"lean": lean, "optimize": optimize, "disabled": list(disabled), "runtime": self._runtime}
        reply, _ = self._ask({"do": "open", **self._named(model), **settings})
        choice = Choice(provider_of(reply["provider"]), reply["asked"], reply["reason"])
        return Opened(_ports(reply["inputs"]), _ports(reply["outputs"]), choice, _ports(reply["state"]))

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Raises Failure: of a kernel, or of the child, which then is fatal."""
        return self._ask({"do": "run"}, inputs)[1]

    def anew(
        self, message: Message, arrays: Mapping[str, np.ndarray] | None = None
    ) -> tuple[Message, dict[str, np.ndarray]]:
        """Start a child and have it do a first thing with the model. Raises Failure, and ValueError for a provider."""
        self._start()
        return self._ask({**self._named(self._model), **message}, arrays)

    def _named(self, model: Path) -> Message:
        return {"model": str(model.absolute()), "provider": self._provider}

    def _start(self) -> None:
        self.close()
        # A file, because a pipe that nobody reads could fill up and block the child; `close` closes it.
        self._errors = _unnamed_file()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment()
        )

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
        memory = memory_limit_of(self._size, sum(array.nbytes for array in (arrays or {}).values()))
        watch = _Watch(process, self._limit)
        try:
            send(process.stdin, {**message, "memory": memory}, arrays)
            reply, outputs = receive(process.stdout)
            while reply.get("goes_on"):
                watch.begin()
                reply, outputs = receive(process.stdout)
        except (EOFError, OSError) as error:
            watch.end()
            raise self._death(process, watch.late.is_set(), memory) from error
        finally:
            watch.end()
        if reply.get("out_of_memory"):
            raise Failure(rules.RUNTIME_FAILED, {"error": f"{_allowed(memory)}the process ran out of memory"})
        if (refused := reply.get("refused")) is not None:
            raise ValueError(refused)
        if (failure := reply.get("failure")) is not None:
            rule, facts = rules.RULES[failure["rule"]], failure["facts"]
            if (error := facts.get("error")) is not None and SHORT_OF_MEMORY.search(error):
                facts["error"] = f"{_allowed(memory)}{error}"
            raise Failure(rule, facts, node=failure["node"], fatal=failure["fatal"])
        return reply, outputs

    def _death(self, process: subprocess.Popen[bytes], late: bool, memory: int) -> Failure:
        end(process)
        if late:
            how = f"it did not answer within {self._limit:g} seconds and was stopped"
        else:
            how = how_it_ended(process.returncode)
        words = last_words(self._errors)
        told = _allowed(memory) if SHORT_OF_MEMORY.search(words) else ""
        return Failure(rules.RUNTIME_FAILED, {"error": told + how + words}, fatal=True, late=late)


def time_limit_of(model: Path) -> float:
    """Seconds that a model may take to be opened or run: more for more weights."""
    return LEAST_TIME_LIMIT + size_of(model) / SLOWEST_READ


def memory_limit_of(files: int, inputs: int) -> int:
    """Bytes that a child may take for a model: more for more weights, more inputs, and a parent that took more."""
    bounds = (MEMORY_OF_FILES * files, MEMORY_OF_INPUTS * inputs, MEMORY_OF_PARENT * (most_memory() or 0))
    return max(LEAST_MEMORY, *bounds)


def time_of_package(folder: Path, tokens: int) -> float:
    """Seconds that the models of a package may take to be opened, or for a step of so many tokens."""
    least = LEAST_TIME_LIMIT + size_of_package(folder) / SLOWEST_READ
    return least * (1 + tokens // TOKENS_AT_ONCE)


def memory_of_package(folder: Path, tokens: int, inputs: int) -> int:
    """Bytes that a process may take for the models of a package, so many tokens, and other inputs of so many bytes."""
    return memory_limit_of(size_of_package(folder), inputs) + MEMORY_OF_TOKEN * tokens


def size_of_package(folder: Path) -> int:
    """Bytes of all models of a folder."""
    return sum(size_of(path) for path in folder.glob("*.onnx"))


def size_of(model: Path) -> int:
    """Bytes of a model's files; 0 where they cannot be read, which is told when the model is opened."""
    try:
        return read_model_file(model).size()
    except (OSError, ValueError):
        return 0


def how_it_ended(code: int) -> str:
    """The end of a child in words. A negative code is a POSIX signal, a large one a Windows status."""
    if code >= 0:
        return f"its process ended with exit code {code if code < 256 else hex(code)}"
    name = name_of_signal(-code)
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


def _unnamed_file() -> IO[bytes]:
    """A file without a name; in memory where no folder for temporary files can be written to and the system can."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        if not hasattr(os, "memfd_create"):
            raise
        return os.fdopen(os.memfd_create("fxport-errors"), "w+b")


class _Watch:
    """Kills a child that does not answer within a time, which may begin anew. `late` says that it has."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.late = threading.Event()
        self._process, self._seconds = process, seconds
        self._timer: threading.Timer | None = None
        self.begin()

    def begin(self) -> None:
        self.end()
        self._timer = threading.Timer(self._seconds, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _kill(self) -> None:
        self.late.set()
        self._process.kill()


def _allowed(memory: int) -> str:
    return f"its process may take {size(memory)}: "


def environment() -> dict[str, str]:
    """This process's, with what a child needs to import the same fxport.

    The user's encoding of standard streams is left out: those of a child carry messages to this process.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    home = import_folder()
    if home is None:
        return kept
    paths = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths)}


def _ports(rows: Sequence[tuple[str, str, list[int | str | None]]]) -> tuple[Port, ...]:
    return tuple(Port(name, dtype, tuple(shape)) for name, dtype, shape in rows)
