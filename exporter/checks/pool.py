"""The parent's side of the workers: each has a thread that hands it item after item and lives through its death."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Self

from fxport.diagnostics import Place
from fxport.diagnostics.crashes import CRASHES, name_of_signal, place_in
from fxport.exporter.checks.group import FORKS, LOOPBACK, free_port, members_of
from fxport.exporter.checks.items import Task
from fxport.exporter.checks.turns import Turns
from fxport.exporter.sources.usage import UsageError
from fxport.ort_runner.child import PATIENCE, end, environment, how_it_ended, last_words

# -P: a file in the user's folder must not stand for a module of ours or of a library.
WORKER = (sys.executable, "-P", "-m", "fxport.exporter.checks.worker")
STACK_WRITTEN = 0.2  # seconds for a process to write where it stands
SHORT = "it has too little memory: try fewer at once (--jobs), or give them more"
CRASHED_AT_START = "PyTorch, or a library that it loads, crashes here: see whether `python -c 'import torch'` does, too"
ENDED_AT_START = "something else ended it: run the command again"
ADVICE_AT_START: Mapping[str, str] = {**dict.fromkeys(CRASHES, CRASHED_AT_START), "SIGKILL": SHORT, "SIGABRT": SHORT}
"""Advice on a worker that a signal ended before it was ready."""

START_LIMIT = 300.0  # seconds for a worker to import torch, on a busy machine


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a task: a result, or the reason why there is none. `seconds` is its own time.

    `place` is the source line at which the model crashed or was stopped, as far as that is known.
    """

    task: Task
    result: dict[str, Any] | None
    reason: str | None
    seconds: float
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A task that has come to a stage."""

    task: Task
    name: str


@dataclass(slots=True)
class Pool:
    """Events that were not fetched, libraries that all workers shall import, and the workers.

    `path_of` says where an item's model is written; `folder` is the current one of all items. Items of one `turn` may
    share modules that they imported; those of the next import theirs again.
    """

    folder: Path
    path_of: Callable[[Task], Path]
    command: Sequence[str] = WORKER
    events: SimpleQueue[Outcome | Stage | BaseException] = field(default_factory=SimpleQueue)
    libraries: dict[str, None] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    turn: int = 0

    def run(self, tasks: Sequence[Task], jobs: int) -> Generator[Outcome | Stage, None, None]:
        """The outcome of each task as it comes, and the stages before it. Closing the iterator ends all workers."""
        turns = Turns(tasks)
        self.workers += [Worker(self) for _ in range(min(jobs, len(tasks)))]
        threads = [threading.Thread(target=worker.serve, args=(turns,), daemon=True) for worker in self.workers]
        for thread in threads:
            thread.start()
        missing = len(tasks)
        try:
            while missing:
                event = self.events.get()
                if isinstance(event, BaseException):
                    raise event
                missing -= isinstance(event, Outcome)
                yield event
        finally:
            for worker in self.workers:
                worker.end()
            for thread in threads:  # each may wait for the end of a process, which shall not outlive the run
                thread.join(PATIENCE)


class Worker:
    """One worker process, started on use and again after its death."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None
        self._pipes = ExitStack()  # from which the thread reads that runs the items: it closes them
        self._child: int | None = None
        self._ended = False
        self._is_ready = False  # the process has imported what it needs, and listens
        self._ranks: list[Worker] = []  # those of the ranks of a model; they are kept from task to task

    def serve(self, turns: Turns) -> None:
        """Take tasks until there are none; what goes wrong here itself goes to the pool."""
        with self._pipes:
            try:
                while not self._ended and (task := turns.take(self)) is not None:
                    self._pool.events.put(self.check(task))
                self.end()
            except BaseException as error:  # noqa: BLE001 - a thread has no caller: the pool's raises it
                self._pool.events.put(error)

    @contextmanager
    def kept(self) -> Iterator[Self]:
        """Keep the process between tasks, for `check`, until the block ends."""
        with self._pipes:
            try:
                yield self
            finally:
                self.end()

    def prepare(self) -> None:
        """Import the libraries that earlier tasks used, so that the next one does not wait for them."""
        if (process := self._process) is not None:
            self._send(process, {"libraries": list(self._pool.libraries)})
            for message in self._messages(process):
                if "ended" in message:
                    return

    def end(self) -> None:
        """End the process and the item that it runs."""
        self._ended = True
        for rank in [*self._ranks]:
            rank.end()
        self.restart()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def restart(self) -> None:
        """End the process and the item that it runs, and those of ranks; the next task starts new ones."""
        for rank in [*self._ranks]:
            rank.restart()
        self._kill_child()
        process, self._process = self._process, None
        if process is not None:
            if not self._is_ready:  # it holds nothing yet, and hears nothing for seconds
                process.kill()
            end(process)

    def check(self, task: Task) -> Outcome:
        """The outcome of a task; of a model that several ranks hold, that of rank 0, with a worker for each other."""
        if task.item.ranks == 1 or task.member is not None:
            return self._run(task)
        members = members_of(task, LOOPBACK, free_port(), apart=False)
        while len(self._ranks) < len(members):
            self._ranks.append(rank := Worker(self._pool))
            self._pipes.enter_context(rank._pipes)
        with ThreadPoolExecutor(len(members)) as threads:
            first, *rest = found = [
                threads.submit(rank._run, member) for rank, member in zip(self._ranks, members, strict=False)
            ]
            try:
                lost = _first_lost(first, rest)
            finally:
                for rank, outcome in zip(self._ranks, found, strict=False):
                    if not FORKS or not _has_result(outcome):
                        rank.restart()  # it ran the model itself, or waits for a rank that is gone
            outcome = first.result()
        reason = outcome.reason if lost is None else f"rank {rest.index(lost) + 1}: {lost.result().reason}"
        return replace(outcome, task=task, reason=reason)

    def _run(self, task: Task) -> Outcome:
        process = self._process or self._start()
        start, told = time.monotonic(), self._position()
        late = threading.Event()
        watch = threading.Timer(min(task.terms.time_limit, threading.TIMEOUT_MAX), self._stop, (late,))
        watch.daemon = True
        watch.start()
        result, code = None, None
        try:
            self._send(process, self._request(task))
            for message in self._messages(process):
                if "pid" in message:
                    self._child = message["pid"]
                elif "stage" in message and (task.member is None or task.member.rank == 0):
                    self._pool.events.put(Stage(task, message["stage"]))
                elif "result" in message:
                    result = message["result"]
                    self._pool.libraries |= dict.fromkeys(result.pop("libraries"))
                elif "ended" in message:
                    code = message["ended"]
                    break
        finally:
            watch.cancel()
            self._child = None
        if code is None:
            self._process = None
            end(process)
            code = process.returncode
        reason, place = None, None
        if result is None:
            limit = f"it was not done within {task.terms.time_limit:g} seconds and was stopped"
            reason = limit if late.is_set() else how_it_ended(code) + last_words(self._errors, told)
            place = place_in(self._written(told))
        return Outcome(task, result, reason, time.monotonic() - start, place)

    def _start(self) -> subprocess.Popen[str]:
        if self._errors is None:
            # A file, because a pipe that nobody reads could fill up and block the worker; `end` closes it.
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._is_ready = False
        process = subprocess.Popen(
            self._pool.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for the parent, which ends its workers
        )
        self._process = process
        self._pipes.enter_context(process.stdout)  # type: ignore[arg-type]  # it is a pipe
        watch = threading.Timer(START_LIMIT, process.kill)
        watch.daemon = True
        watch.start()
        ready = next(self._messages(process), None)
        watch.cancel()
        self._is_ready = ready is not None
        if ready is None and not self._ended:
            self._process = None
            end(process)
            raise _not_started(process.returncode, last_words(self._errors))
        return process

    def _request(self, task: Task) -> dict[str, Any]:
        return {
            "item": asdict(task.item),
            "path": str(self._pool.path_of(task)),
            "folder": str(self._pool.folder),
            "memory": task.terms.memory,
            "libraries": list(self._pool.libraries),
            "member": asdict(task.member) if task.member else None,
            "turn": self._pool.turn,
        }

    def _send(self, process: subprocess.Popen[str], request: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it is gone: its end is seen where its answers end
            process.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

    def _messages(self, process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
        for line in process.stdout or ():
            if line.endswith("\n"):  # else the process died in the middle of it
                yield json.loads(line)

    def _stop(self, late: threading.Event) -> None:
        late.set()
        if (child := self._child) is not None and self._process is not None and child != self._process.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGUSR1)  # it writes where it stands
                time.sleep(STACK_WRITTEN)
        self._kill_child()

    def _kill_child(self) -> None:
        """End the item's process with those that it started; where items run in the worker, the worker."""
        child, process = self._child, self._process
        if child is None or process is None:
            return
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            if child == process.pid:
                process.kill()
            else:
                os.killpg(child, signal.SIGKILL)

    def _written(self, since: int) -> str:
        """Return the process's standard error from a position on."""
        if self._errors is None:
            return ""
        self._errors.seek(since)
        return self._errors.read().decode(errors="replace")

    def _position(self) -> int:
        return 0 if self._errors is None else os.fstat(self._errors.fileno()).st_size


def _has_result(outcome: Future[Outcome]) -> bool:
    return outcome.done() and outcome.exception() is None and outcome.result().result is not None


def _not_started(code: int, words: str) -> Exception:
    """The error of a worker that ended before it was ready: the machine's, if a signal ended it, else fxport's."""
    told = f"{how_it_ended(code)}{words}"
    if code < 0:
        advice = ADVICE_AT_START.get(name_of_signal(-code), ENDED_AT_START)
        return UsageError(f"A worker could not start: {told}; {advice}.")
    return RuntimeError(f"a worker did not start: {told}")


def _first_lost(first: Future[Outcome], rest: Sequence[Future[Outcome]]) -> Future[Outcome] | None:
    """Waits until rank 0 is done and the others have heard of it, or until one of them ends without a result."""
    waiting = {first, *rest}
    while first in waiting:
        done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        lost = next((each for each in done if each is not first and each.result().result is None), None)
        if lost is not None and first in waiting:
            return lost
    wait(rest, PATIENCE)
    return None
