"""Many trials in child processes: one that crashes or hangs costs its own row and no other."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from tests.conformance.samples import SAMPLES, Key
from tests.conformance.trial import Outcome

VALUES, GRADIENTS = "values", "gradients"
"""What of an operator's samples is computed."""

TIME_LIMIT = 120.0
"""Seconds without a word after which a trial is given up."""


def run(
    names: Sequence[str], dtype: torch.dtype, exporter: str, workers: int = 1, *, of: str = VALUES, count: int = 0
) -> Iterator[Outcome]:
    """The outcomes of the samples of the named operators, or of their gradients, in the order in which they come.

    `count` samples of each operator are taken; of 0 as many as `SAMPLES` says, or one.
    """
    count = count or SAMPLES.get(dtype, 1)
    shares = [list(names[start::workers]) for start in range(workers)]
    running = {share.outputs: share for share in (_Share(each, dtype, exporter, of, count) for each in shares if each)}
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
    """A list of operators, the process that works on it, and what it is about."""

    def __init__(self, names: list[str], dtype: torch.dtype, exporter: str, of: str, count: int) -> None:
        self.names, self.dtype, self.exporter, self.of, self.count = names, dtype, exporter, of, count
        self.finished = False
        self.at: Key | None = None
        self._start(None)

    def _start(self, after: Key | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.outputs, sender = context.Pipe(duplex=False)
        arguments = (
            self.names,
            str(self.dtype).removeprefix("torch."),
            self.exporter,
            self.of,
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
            raise RuntimeError("a trial process ended before it began; run the operator by itself to see why")
        self._start(at)
        return Outcome(at, "hangs" if hung else "crashes", f"exit code {code}")


def _work(
    names: list[str], dtype: str, exporter: str, of: str, count: int, after: Key | None, sender: Connection
) -> None:
    from tests.conformance.gradients import gradients
    from tests.conformance.samples import operators, samples
    from tests.conformance.trial import attempt

    torch.set_num_threads(1)
    known, kind = operators(), getattr(torch, dtype)
    of_operator = {VALUES: samples, GRADIENTS: gradients}[of]
    skipping = after is not None
    for name in names:
        if skipping and after is not None and name != after.op:
            continue
        for index, sample in enumerate(of_operator(known[name], kind, count)):
            key = Key(name, dtype, index)
            if skipping:
                skipping = key != after
                continue
            sender.send(key)
            sender.send(attempt(key, sample, exporter))
        skipping = False
    sender.send("done")
