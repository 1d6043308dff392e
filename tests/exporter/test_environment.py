"""Reads of the process: those of `forward` count, those of threads that ran before it do not."""

from __future__ import annotations

import threading
import time

import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Log, rules


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Timed(nn.Module):
    """A thread of forward's own reads the clock."""

    def forward(self, x: Tensor) -> Tensor:
        read: list[float] = []
        thread = threading.Thread(target=lambda: read.append(time.time() % 1))
        thread.start()
        thread.join()
        return x * read[0]


class Moded(nn.Module):
    """Asks, as it is called and within a branch, in which mode of autograd it is."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x + int(torch.is_inference_mode_enabled())
        return x + 1 if torch.is_grad_enabled() else x - 1


def reads_of(model: nn.Module) -> list[str]:
    log = Log()
    export(model, torch.ones(2), log=log)
    return [str(finding.facts["name"]) for finding in log.findings if finding.rule is rules.ENVIRONMENT_BAKED]


def test_a_thread_that_ran_before_does_not_count() -> None:
    ended, reads = threading.Event(), 0

    def ticks() -> None:
        nonlocal reads
        while not ended.is_set():
            reads += time.time() > 0
            ended.wait(0.001)

    thread = threading.Thread(target=ticks)
    thread.start()
    try:
        before = reads
        assert reads_of(Scaled()) == []
        assert reads > before
    finally:
        ended.set()
        thread.join()


def test_a_thread_of_forward_counts() -> None:
    assert reads_of(Timed()) == ["time.time"]


def test_the_mode_of_autograd_is_a_constant() -> None:
    assert reads_of(Moded()) == ["torch.is_inference_mode_enabled", "torch.is_grad_enabled"]


@torch.jit.script
def scripted(x: Tensor) -> Tensor:
    return x * 2


class Script(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return scripted(x)


def test_what_a_script_reads_is_its_own() -> None:
    assert reads_of(Script()) == []


class Asking(nn.Module):
    """Ask what a trace alone can answer."""

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x.shape[0], torch.SymInt):
            return x * 2
        return x * 3 if torch.fx._symbolic_trace.is_fx_tracing() or hasattr(x, "fake_mode") else x


def test_what_only_a_trace_has_is_told() -> None:
    assert sorted(reads_of(Asking())) == ["SymInt", "fake_mode", "is_fx_tracing"]
