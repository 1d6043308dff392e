"""One generated call: what eager PyTorch gives, the exported model gives, at the sizes of the example and at others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import assume, event
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

from fxport import ExportError
from tests.running import assert_same, run_exported

NOT_OURS = frozenset({"FXP1001", "FXP1002"})
"""Findings that say that torch.export itself does not capture the call."""


class Call(torch.nn.Module):
    """A model that is one call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def agree(function: Callable[..., Any], *tensors: torch.Tensor, dynamic: bool = False) -> None:
    """Exports the call and compares; calls that eager PyTorch or torch.export refuses are no examples.

    With `dynamic`, every size that torch.export lets be symbolic is.
    """
    model = Call(function)
    try:
        expected = model(*(tensor.clone() for tensor in tensors))
    except (RuntimeError, IndexError, ValueError) as refusal:
        event(f"refused by PyTorch: {type(refusal).__name__}")
        assume(False)
    shapes = (tuple(dict.fromkeys(range(tensor.dim()), torch.export.Dim.AUTO) for tensor in tensors),)
    try:
        (actual,) = run_exported(model, [tensors], **({"dynamic_shapes": shapes} if dynamic else {}))
    except ExportError as error:
        rules = {finding.rule.id for finding in error.log.findings if finding.level == "error"}
        if not rules & NOT_OURS:
            raise
        event("not captured by torch.export")
        assume(False)
    assert_same(actual, [leaf for leaf in pytree.tree_leaves(expected) if leaf is not None])


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
