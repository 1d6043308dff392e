"""Orders: TopK behind `sort`, `topk` and what PyTorch builds on them. NaN is greater than infinity, as in PyTorch."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of

aten = torch.ops.aten

BELOW_INFINITY = 1e300
"""Stands for infinity among doubles that hold narrower floats: greater than any of those, and less than NaN's key."""


def ranked(op: Op, x: Value, count: Size, dim: int, *, largest: bool) -> tuple[Value, Value]:
    """The `count` first elements of an order along `dim`, and their indices; equal elements keep their order.

    ONNX Runtime's TopK compares, which puts NaN anywhere. So it ranks doubles, in which infinity is a finite number and
    NaN is infinity.
    """
    if not is_float(x.dtype):
        carried = op.cast(x, ir.DataType.UINT8) if x.dtype == ir.DataType.BOOL else x
        values, order = _top(op, carried, op.shape([count]), dim, largest)
        return op.const(values, like=x), order
    if x.dtype == ir.DataType.DOUBLE:
        order = _order_of_doubles(op, x, op.shape([count]), dim, largest)
    else:
        wide = op.Min(op.cast(x, ir.DataType.DOUBLE), BELOW_INFINITY)
        _, order = _top(op, op.Where(op.IsNaN(x), float("inf"), wide), op.shape([count]), dim, largest)
    return op.GatherElements(x, order, axis=dim), order


def _top(op: Op, x: Value, count: Value, dim: int, largest: bool) -> tuple[Value, Value]:
    return op.TopK(x, count, axis=dim, largest=int(largest), outputs=2)


def _order_of_doubles(op: Op, x: Value, count: Value, dim: int, largest: bool) -> Value:
    """By two stable sorts, for there is no wider dtype: by value, and then NaN to the end where it belongs."""
    is_nan = op.IsNaN(x)
    _, by_value = _top(op, op.Where(is_nan, 0.0, x), op.shape([op.sizes(x)[dim]]), dim, largest)
    nan_there = op.GatherElements(op.Cast(is_nan, to=ir.DataType.UINT8), by_value, axis=dim)
    _, nan_last = _top(op, nan_there, count, dim, largest)
    return op.GatherElements(by_value, nan_last, axis=dim)


@lowering(aten.topk.default)
def topk(op: Op, x: Value, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Value, Value]:
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)

    Sorted in any case: an order that is left open may be this one. PyTorch says nothing about which of equal elements
    are taken; here it is the first.
    """
    rank = op.rank(x)
    return ranked(op, x, k, axis_of(dim, rank), largest=largest) if rank else (x, op.const(0))


@lowering(aten.sort.default)
def sort(op: Op, x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    sizes = op.sizes(x)
    if not sizes:
        return x, op.const(0)
    axis = axis_of(dim, len(sizes))
    return ranked(op, x, sizes[axis], axis, largest=descending)


@lowering(aten.sort.stable)
def sort_stable(
    op: Op, x: Value, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)

    TopK is stable by its definition: of two equal elements the one with the lower index comes first.
    """
    return sort(op, x, dim, descending)
