"""Whether the results of an exported sample are right, by the same measure for every exporter."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.samples import Sample

TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (3e-2, 3e-2),
    torch.complex64: (1e-4, 1e-4),
    torch.complex128: (1e-7, 1e-7),
}
"""(rtol, atol); the other dtypes are compared exactly."""

UNFILLED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    }
)
"""Operators that give memory as it is."""

ORDERS = frozenset({"argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk"})
"""Operators whose indices say which elements were taken: of equal ones PyTorch takes any."""

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass(frozen=True)
class Expected:
    """What eager PyTorch gave: results, of which Python's numbers are compared whatever their dtype."""

    results: Any
    undefined: bool
    """Whether the values are random, or memory as it is; then dtypes and shapes are all there is to compare."""

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [as_tensor(leaf) for leaf in pytree.tree_leaves(self.results) if leaf is not None]


def as_tensor(leaf: Any) -> torch.Tensor:
    return leaf.resolve_conj().resolve_neg() if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)


def difference(sample: Sample, actual: Sequence[torch.Tensor], expected: Expected) -> str:
    """What is wrong with the outputs; "" if nothing is."""
    leaves, spec = pytree.tree_flatten(expected.results)
    held = [leaf for leaf in leaves if leaf is not None]
    if len(actual) != len(held):
        return f"{len(actual)} outputs instead of {len(held)}"
    got = [_as_expected(each, leaf) for each, leaf in zip(actual, held, strict=True)]
    for each, leaf in zip(got, held, strict=True):
        want = as_tensor(leaf)
        if each.dtype != want.dtype or each.shape != want.shape:
            return f"{each.dtype} {tuple(each.shape)} instead of {want.dtype} {tuple(want.shape)}"
    if expected.undefined or not (reason := _unequal(got, expected.tensors)):
        return ""
    given = iter(got)
    results = pytree.tree_unflatten([next(given) if leaf is not None else None for leaf in leaves], spec)
    return "" if any(holds(sample, results, expected) for holds in EXCUSES) else reason


def _as_expected(got: torch.Tensor, leaf: Any) -> torch.Tensor:
    """An exporter gives complex numbers with a last axis of 2, and Python's numbers in a dtype of its choice."""
    want = as_tensor(leaf)
    if want.is_complex() and not got.is_complex() and got.shape == (*want.shape, 2):
        return torch.complex(got[..., 0], got[..., 1])
    return got if isinstance(leaf, torch.Tensor) else got.to(want.dtype)


def _unequal(actual: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
    for got, want in zip(actual, expected, strict=True):
        close = near(got, want)
        if not close.all():
            return f"{int((~close).sum())} of {close.numel()} values differ"
    return ""


def near(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    rtol, atol = TOLERANCES.get(want.dtype, (0.0, 0.0))
    return torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)


def _equal_where_determined(sample: Sample, results: Any, expected: Expected) -> bool:
    """The database itself says what of the results is determined."""
    actual, wanted = (sample.comparable(each) for each in (results, expected.results))
    tensors = ([as_tensor(leaf) for leaf in pytree.tree_leaves(each)] for each in (actual, wanted))
    return not _unequal(*tensors)


def _equal_but_for_ties(sample: Sample, results: Any, expected: Expected) -> bool:
    """Other indices are as good where they show, along one axis, the same elements, and none of them twice."""
    if sample.name not in ORDERS:
        return False
    x = sample.tensors[0]
    return all(
        not _unequal([got], [want]) or (got.dtype == torch.int64 and _same_elements(x, got, want))
        for got, want in zip(pytree.tree_leaves(results), expected.tensors, strict=True)
    )


def _same_elements(x: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether indices are as good along some axis, which they may have reduced to nothing."""
    for dim in range(x.dim()):
        ours, theirs = ((each.unsqueeze(dim) if each.dim() < x.dim() else each) for each in (got, want))
        beyond = max(int(each.max()) if each.numel() else 0 for each in (ours, theirs)) >= x.shape[dim]
        if beyond or any(a != b for axis, (a, b) in enumerate(zip(x.shape, ours.shape, strict=True)) if axis != dim):
            continue
        distinct = bool((ours.sort(dim).values.diff(dim=dim) > 0).all())
        if distinct and bool(near(x.gather(dim, ours), x.gather(dim, theirs)).all()):
            return True
    return False


def _no_worse_than_eager(sample: Sample, results: Any, expected: Expected) -> bool:
    """Rounding may have led eager PyTorch away from the result in twice the precision, and the exported model less."""
    tensors = sample.tensors
    if not any(tensor.dtype in WIDER for tensor in tensors):
        return False
    try:
        wide = copy.deepcopy(sample).double()
        exact = wide(*(tensor.to(WIDER.get(tensor.dtype, tensor.dtype)) for tensor in tensors))
    except RuntimeError:  # not every operator has every dtype
        return False
    truths = [as_tensor(leaf) for leaf in pytree.tree_leaves(exact) if leaf is not None]
    actual = [as_tensor(leaf) for leaf in pytree.tree_leaves(results) if leaf is not None]
    if len(truths) != len(actual):
        return False
    return all(
        truth.shape == got.shape
        and (bool(near(got, truth.to(got.dtype)).all()) or _error(got, truth) <= _error(want, truth) < inf)
        for got, want, truth in zip(actual, expected.tensors, truths, strict=True)
    )


def _error(got: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest distance; infinite where one is not a number and the other is."""
    wide = torch.complex128 if truth.is_complex() else torch.float64
    gap = (got.to(wide) - truth.to(wide)).abs()
    gap = torch.where((got == truth) | (got.isnan() & truth.isnan()), 0.0, gap)
    return float(gap.nan_to_num(nan=inf, posinf=inf).max()) if gap.numel() else 0.0


EXCUSES: Sequence[Callable[[Sample, Any, Expected], bool]] = (
    _equal_where_determined,
    _equal_but_for_ties,
    _no_worse_than_eager,
)
"""Why results that are not those of eager PyTorch may be right nevertheless."""
