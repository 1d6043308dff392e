"""Many trials in child processes: one that crashes or hangs costs its own row and no other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from tests.conformance.samples import Key
from tests.conformance.trial import Outcome
from tests.forks import forks

TIME_LIMIT = 120.0
"""Seconds without a word after which a trial is given up."""


def run(
    names: Sequence[str], dtype: torch.dtype, exporter: str, workers: int = 1, *, suite: str, count: int
) -> Iterator[Outcome]:
    """The outcomes of up to `count` samples of each named program of a suite, in the order in which they come."""
    shares = [list(names[start::workers]) for start in range(workers)]
    running = {
        share.outputs: share for share in (_Share(each, dtype, exporter, suite, count) for each in shares if each)
    }
    while running:
        ready = wait(list(running), timeout=TIME_LIMIT)
        for outputs in ready or list(running):
            share = running.pop(outputs)  # type: ignore[index]  # what is waited for are its keys
            outcome = share.next(hung=not ready)
            if outcome is not None:
                yield outcome
            if not share.finished:
                running[share.outputs] = share


class _Share:
    """A list of programs, the process that works on it, and what it is about."""

    def __init__(self, names: list[str], dtype: torch.dtype, exporter: str, suite: str, count: int) -> None:
        self.names, self.dtype, self.exporter, self.suite, self.count = names, dtype, exporter, suite, count
        self.finished = False
        self.at: Key | None = None
        self._start(None)

    def _start(self, after: Key | None) -> None:
        context = forks()
        self.outputs, sender = context.Pipe(duplex=False)
        arguments = (
            self.names,
            str(self.dtype).removeprefix("torch."),
            self.exporter,
            self.suite,
            self.count,
            after,
            sender,
        )
        self.process = context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        sender.close()

    def next(self, hung: bool) -> Outcome | None:
        """What the process says; if it died or hung, that is the outcome of the sample it was about."""
        if hung and self.at is None:
            return None  # on a busy machine PyTorch may take its time to be imported
        try:
            message: Any = None if hung else self.outputs.recv()
        except EOFError:
            message = None
        if isinstance(message, Key):
            self.at = message
            return None
        if isinstance(message, Outcome):
            return message
        if message == "done":
            self.process.join()
            self.finished = True
            return None
        self.process.kill()
        self.process.join()
        at, self.at, code = self.at, None, self.process.exitcode
        if at is None:
            raise RuntimeError("a trial process ended before it began; run the program by itself to see why")
        self._start(at)
        return Outcome(at, "hangs" if hung else "crashes", f"exit code {code}")


def _work(
    names: list[str], dtype: str, exporter: str, suite: str, count: int, after: Key | None, sender: Connection
) -> None:
    from tests.conformance.suites import SUITES
    from tests.conformance.trial import attempt

    torch.set_num_threads(1)
    skipping = after is not None
    for name in names:
        if skipping and after is not None and name != after.op:
            continue
        for index, sample in enumerate(SUITES[suite].samples(name, getattr(torch, dtype), count)):
            key = Key(name, dtype, index)
            if skipping:
                skipping = key != after
                continue
            sender.send(key)
            sender.send(attempt(key, sample, exporter))
        skipping = False
    sender.send("done")
