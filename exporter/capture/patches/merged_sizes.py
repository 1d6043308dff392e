"""Results of branches that have other sizes in each arm: `ids = torch.cat([ids, token], 1)` in one of them alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import sympy
import torch
from torch import SymInt
from torch._prims_common import is_contiguous_or_false
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.exporter.capture.sizes import as_data
from fxport.fx_passes.sizes import size_of

cond_module: Any = importlib.import_module("torch._higher_order_ops.cond")  # a function of the same name hides it

CHECKED = ("dtype", "device", "layout")
"""Attributes that are the same in both arms; PyTorch tells where they are not."""


@contextmanager
def merged_sizes_bounded() -> Iterator[None]:
    """Let the merged result of two contiguous tensors be contiguous, of sizes between those of the arms.

    PyTorch knows limits of plain symbols alone, not of `s + 1`, and asks for strides that are products of sizes: those
    of a tensor that may be empty are not. To a size that only data tells it gives another symbol, also where that is
    one of what both arms are given.
    """
    plain, kernels = cond_module._merge_output, cond_module.cond_op.python_key_table
    run = kernels[FakeTensorMode]
    given: frozenset[Any] = frozenset()  # the symbols of what the arms are given

    def fake(mode: Any, pred: Any, then: Any, other: Any, operands: Any) -> Any:
        nonlocal given
        before, given = given, frozenset().union(*map(free_unbacked_symbols, operands))
        try:
            return run(mode, pred, then, other, operands)
        finally:
            given = before

    def merged(one: Any, other: Any, mode: Any) -> Any:
        if not _are_alike(one, other) or all(_is_same(*pair) for pair in zip(one.shape, other.shape, strict=True)):
            return plain(one, other, mode)
        if not as_data.are_any() and not all(map(_is_size, (*one.shape, *other.shape))):
            return plain(one, other, mode)  # which may refuse it: another attempt may know the number
        pairs = zip(one.shape, other.shape, strict=True)
        sizes = [a if _is_same(a, b, given) else _between(a, b, mode.shape_env) for a, b in pairs]
        with mode:
            return torch.empty(sizes, dtype=one.dtype, device=one.device)

    with mock.patch.object(cond_module, "_merge_output", merged), mock.patch.dict(kernels, {FakeTensorMode: fake}):
        yield


def _are_alike(one: Any, other: Any) -> bool:
    if type(one) is not FakeTensor or type(other) is not FakeTensor or one.dim() != other.dim():
        return False
    alike = all(getattr(one, name) == getattr(other, name) for name in CHECKED)
    return alike and all(is_contiguous_or_false(each) and not each.is_quantized for each in (one, other))


def _is_size(size: Any) -> bool:
    """Return whether a size is made of sizes, and of no number that data holds, as `int(self.stride)` is."""
    if not isinstance(size, SymInt):
        return True
    return free_unbacked_symbols(size) <= size.node.shape_env.size_like


def _is_same(one: Any, other: Any, given: frozenset[Any] = frozenset()) -> bool:
    """Return whether two sizes are one and the same outside of the arms, too, which are given these symbols."""
    if isinstance(one, SymInt) or isinstance(other, SymInt):
        exprs = [each.node.expr if isinstance(each, SymInt) else each for each in (one, other)]
        return exprs[0] == exprs[1] and free_unbacked_symbols(exprs[0]) <= given
    return one == other


def _between(one: Any, other: Any, env: Any) -> Any:
    """Return a size that only data tells, and that is not above the larger one of these; it is 0 only if one may be.

    More is not taken of the smaller one: PyTorch knows of no dynamic size that it may be 1, which it may.
    """
    ranges = [env.bound_sympy(sympy.sympify(size_of(each))) for each in (one, other)]
    size = env.create_unbacked_symint()
    env.size_like.add(size.node.expr)
    is_some = all(each.lower > 0 for each in ranges)
    env.constrain_symbol_range(size.node.expr, int(is_some), max(each.upper for each in ranges))
    return size
