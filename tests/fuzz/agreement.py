"""Generated calls: what eager PyTorch gives, the exported model gives, at fixed sizes and at symbolic ones.

An export of one call takes ten times what one more call in it does, so those of a test at fixed sizes wait and share
exports. Where one of them is not right, the test is run again with an export for each, and hypothesis finds the least
call that fails. With symbolic sizes, what one call asks of its sizes would have the others captured anew, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import assume, event
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from fxport import ExportError
from tests.running import assert_same, run_exported

NOT_OURS = frozenset({"FXP1001", "FXP1002"})
"""Findings that say that torch.export itself does not capture the call."""

TOGETHER = 10
"""Calls of one export."""


@dataclass(frozen=True)
class Call:
    """A call, its tensors and its results in eager PyTorch."""

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    expected: Sequence[Any]


class Calls(torch.nn.Module):
    """A model of several calls, each with tensors of its own."""

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.functions = [(call.function, len(call.tensors)) for call in calls]

    def forward(self, *tensors: torch.Tensor) -> Any:
        results, first = [], 0
        for function, count in self.functions:
            results.append(function(*tensors[first : first + count]))
            first += count
        return results


class Waiting:
    """Calls that are judged together, and what was wrong with some."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults: list[Exception] = []

    def add(self, call: Call) -> None:
        self.calls.append(call)
        if len(self.calls) == TOGETHER:
            self.judge()

    def judge(self) -> None:
        """Judge those that wait."""
        calls, self.calls = self.calls, []
        self.faults += faults(calls)


waiting: Waiting | None = None
"""Where the calls of a test wait. None where each is judged alone."""


@contextmanager
def together() -> Iterator[Waiting]:
    """Have the calls at fixed sizes that are made meanwhile share exports."""
    global waiting
    waiting = shared = Waiting()
    try:
        yield shared
    finally:
        waiting = None
    shared.judge()


def faults(calls: Sequence[Call]) -> list[Exception]:
    """Return the errors of calls: of all in one model first, then of its halves, as long as there is one."""
    if not calls:
        return []
    try:
        judge(calls)
    except Exception as error:  # noqa: BLE001  # whatever an export, ONNX Runtime or a comparison raises
        if len(calls) == 1:
            return [] if is_not_captured(error) else [error]
        middle = len(calls) // 2
        found = faults(calls[:middle]) + faults(calls[middle:])
        return found if found or is_not_captured(error) else [error]
    return []


def judge(calls: Sequence[Call], dynamic: bool = False) -> None:
    """Export calls as one model and compare. With `dynamic`, every size that torch.export lets be symbolic is."""
    tensors = tuple(tensor for call in calls for tensor in call.tensors)
    shapes = (tuple(dict.fromkeys(range(tensor.dim()), torch.export.Dim.AUTO) for tensor in tensors),)
    (actual,) = run_exported(Calls(calls), [tensors], **({"dynamic_shapes": shapes} if dynamic else {}))
    assert_same(actual, [each for call in calls for each in call.expected])


def is_not_captured(error: Exception) -> bool:
    """True if torch.export itself does not capture the call."""
    return isinstance(error, ExportError) and any(
        finding.rule.id in NOT_OURS for finding in error.log.findings if finding.level == "error"
    )


def agree(function: Callable[..., Any], *tensors: torch.Tensor, dynamic: bool = False) -> None:
    """Compare a call; calls that eager PyTorch or torch.export refuses are no examples."""
    try:
        expected = function(*(tensor.clone() for tensor in tensors))
    except (RuntimeError, IndexError, ValueError) as refusal:
        event(f"refused by PyTorch: {type(refusal).__name__}")
        assume(False)
    call = Call(function, tensors, [leaf for leaf in pytree.tree_leaves(expected) if leaf is not None])
    if waiting is not None and not dynamic:
        waiting.add(call)
        return
    try:
        judge([call], dynamic)
    except ExportError as error:
        if not is_not_captured(error):
            raise
        event("not captured by torch.export")
        assume(False)


# Strategies ---------------------------------------------------------------------------------------------------------

DTYPES = st.sampled_from((torch.float32, torch.float32, torch.float64, torch.int64, torch.int32, torch.bool))


def shapes(low: int = 0, high: int = 4, largest: int = 5) -> st.SearchStrategy[list[int]]:
    """Sizes of tensors; now and then one of them is 0."""
    return st.lists(st.integers(1, largest) | st.integers(0, largest), min_size=low, max_size=high)


def tensor(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """A tensor of values that are told apart as well as the dtype allows."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(list(shape), generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.randn(list(shape), generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(-50, 50, list(shape), generator=generator).to(dtype)


def places(shape: Sequence[int], low: int, high: int, seed: int) -> torch.Tensor:
    """Indices in [low, high)."""
    return torch.randint(low, high, list(shape), generator=torch.Generator().manual_seed(seed))
