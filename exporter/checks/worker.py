"""A worker: `python -P -m fxport.exporter.checks.worker` imports torch once, and forks processes for the work items.

The items of one source file share a process, as they share its module, until one of them crashes, hangs or takes too
much memory: then only that process ends, and the next item gets a new one for the price of a fork. Items of different
files never meet: what one imports, registers or changes is unknown to the other. Where there is no safe fork (not
Linux), items run in the worker itself.

Requests, a line of JSON each: {"item": …, "path": …, "folder": …, "memory": bytes or null, "libraries": [modules],
"member": the rank that this process is, or null, "turn": number}; or {"libraries": [modules]}, to import them.
Answers: {"ready": true}; then for each item {"pid": …}, {"stage": …}…, {"result": …}, {"ended": exit code}.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from fxport.exporter.checks.group import FORKS, Member
from fxport.exporter.checks.items import Item
from fxport.exporter.checks.traces import Traces
from fxport.exporter.checks.work import result_of
from fxport.ort_runner.memory import private_memory
from fxport.ort_runner.parent import end_with_parent, wait_for

PR_SET_PDEATHSIG = 1  # linux/prctl.h
GOES_ON = b"."  # a child says so after an item; it ends without a word
KEPT_MEMORY = 1 << 30  # bytes that a child may have grown by; a larger one makes room for a new one


Request = dict[str, Any]  # Any: whatever JSON holds; both ends are this package
Kind = tuple[str, int | None, int]
"""Of items that may share a process: the file, the bound of memory, the turn."""


def main() -> int:
    """Serve until the parent closes the pipe."""
    # What models and libraries print must not come between the answers: those get a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    warm()
    say(answers, {"ready": True})
    if not FORKS:
        end_with_parent(sys.stdin.fileno())
    place = Nursery(answers) if FORKS else Bench(answers)
    for line in sys.stdin:
        say(answers, {"ended": place.serve(json.loads(line))})
    place.close()
    return 0


def warm() -> None:
    """Import all that an export imports on use, and once for all items. Starts no threads, which a fork would lose."""
    gc.disable()  # nothing of what is imported is garbage
    with contextlib.suppress(ImportError):  # without it nothing is validated, which each item tells
        import onnxruntime  # noqa: F401 - for the items
    import torch

    import fxport.ort_runner.validate  # noqa: F401
    from fxport.diagnostics import Log, sarif
    from fxport.exporter.pipeline.exporting import export
    from fxport.exporter.validation import reference
    from fxport.exporter.weights import fill  # noqa: F401

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    log = Log()
    for model, shape in ((torch.nn.Linear(2, 2), (1, 2)), (torch.nn.Conv2d(1, 1, 1), (1, 1, 2, 2))):
        program = export(model.eval(), (torch.zeros(shape),), dynamic_shapes=({0: "rows"},), log=log)
        list(reference.cases(model, (torch.zeros(shape),), {}, program, log))
    sarif.to_sarif(log)
    torch.set_num_threads(threads)
    gc.enable()
    gc.collect()
    gc.freeze()  # a collection in a child would touch, and so copy, every page of the parent's objects


def import_libraries(names: Sequence[str]) -> None:
    """Installed libraries that an earlier item used: imported here, later items have them for nothing."""
    for name in names:
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001 - it could be imported in the item's own order only; then each item does
                return


class Bench:
    """Worker loop that runs items one after the other in this process."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._modules: dict[Path, ModuleType] = {}
        self._traces = Traces()

    def serve(self, request: Request) -> int:
        """Work on one item and tell its result; returns 0."""
        if "item" not in request:
            import_libraries(request["libraries"])
            return 0
        say(self._answers, {"pid": os.getpid()})
        os.chdir(request["folder"])
        item, path = item_of(request), Path(request["path"])
        if request["turn"]:  # a file may be saved twice in a second, which the bytecode of the first does not tell
            sys.dont_write_bytecode = True
        if request["member"]:  # this process does nothing else, then
            os.environ.update(Member(**request["member"]).environment)
        with self._traces:
            result = result_of(item, path, self._modules, lambda name: say(self._answers, {"stage": name}))
        made_of = {"files": self._traces.files(item, path), "libraries": self._traces.libraries()}
        say(self._answers, {"result": result | made_of})
        return 0

    def close(self) -> None:
        """There is nothing to end: the process is this one."""


@dataclass(frozen=True, slots=True)
class Child:
    """A forked process: `kind` is what its items have in common, `requests` and `done` are this side's pipe ends."""

    pid: int
    kind: Kind
    requests: IO[str]
    done: int

    def kill(self) -> None:
        """End it at once, with the processes that it started."""
        for kill in (os.killpg, os.kill):  # it may not lead its group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait for its end; returns the exit code, negative for a signal."""
        with contextlib.suppress(OSError):  # it is gone, and what was left in the buffer with it
            self.requests.close()
        os.close(self.done)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Nursery:
    """Forks a child for the items of a file, and another one after its death."""

    def __init__(self, answers: IO[str]) -> None:
        self._answers = answers
        self._child: Child | None = None

    def serve(self, request: Request) -> int:
        """Have one item worked on; returns 0, or the exit code of the child that died of it."""
        if "item" not in request:
            self.close()
            import_libraries(request["libraries"])
            return 0
        kind = (item_of(request).file, request["memory"], request["turn"])
        if self._child is not None and self._child.kind != kind:
            self.close()
        child = self._child = self._child or self._fork(kind, request["libraries"])
        with contextlib.suppress(OSError):  # it is gone: its end is seen below
            child.requests.write(json.dumps(request) + "\n")
            child.requests.flush()
        if not wait_for(child.done, while_open=sys.stdin.fileno()):  # the parent was killed
            child.kill()
        said = os.read(child.done, 1)
        if said == GOES_ON:
            if request["member"]:  # the next task of a rank finds nothing of this one's group
                self.close()
            return 0
        self._child = None
        return child.end()

    def close(self) -> None:
        """Let the child go when it is done."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _fork(self, kind: Kind, libraries: Sequence[str]) -> Child:
        import_libraries(libraries)
        (theirs, ours), (done, told) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.close(ours)
                os.close(done)
                apart(kind[1])
                code = work(self._answers, theirs, told)
            finally:
                os._exit(code)  # no handlers of the parent's, no second flush of its buffers
        os.close(theirs)
        os.close(told)
        return Child(pid, kind, os.fdopen(ours, "w", encoding="utf-8"), done)


def work(answers: IO[str], requests: int, done: int) -> int:
    """The child's side: item after item until there are no more, or until it has grown too large to be kept."""
    bench, before = Bench(answers), private_memory()
    with os.fdopen(requests, encoding="utf-8") as lines:
        for line in lines:
            bench.serve(json.loads(line))
            if private_memory() > before + KEPT_MEMORY:
                return 0
            os.write(done, GOES_ON)
    return 0


def apart(memory: int | None) -> None:
    """Make the child a process group of its own that ends with its parent, reads nothing, and has its bound."""
    import resource

    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    faulthandler.enable()  # what it writes of a crash, or when it is asked to, says where the model stood
    faulthandler.register(signal.SIGUSR1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if memory is not None:
        # Private memory that can be written: unlike RLIMIT_AS it leaves out mapped files and mere reservations.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def item_of(request: Request) -> Item:
    """The item of a request, with tuples where JSON has lists."""
    fields: Request = {name: tuple(v) if isinstance(v, list) else v for name, v in request["item"].items()}
    return Item(**fields)


def say(answers: IO[str], message: Request) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
