"""Reductions to a sum, a product, a mean, a truth value; `reduced` and `counted` are for every family that reduces."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.dtypes import is_integer
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import is_symbolic
from fxport.exporter.lowering.lowerings.axes import axis_of, flat, product
from fxport.exporter.lowering.lowerings.prefix import running_product

aten = torch.ops.aten

Dims = int | Sequence[int] | None
"""Axes to reduce: None and the empty list mean all of them, as ATen has it for every reduction but `any` and `all`."""


NARROW = frozenset(
    {
        ir.DataType.BOOL,
        ir.DataType.UINT8,
        ir.DataType.INT8,
        ir.DataType.UINT16,
        ir.DataType.INT16,
        ir.DataType.INT32,
        ir.DataType.UINT32,
    }
)
"""Integers of which it takes millions to reach 2**53."""


def axes_of(x_rank: int, dim: Dims) -> list[int]:
    """The axes that `dim` means, from 0 on and in order."""
    dims = [dim] if isinstance(dim, int) else dim
    return sorted({axis_of(each, x_rank) for each in dims}) if dims and x_rank else list(range(x_rank))


def reduced(op: Op, op_type: str, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """`x` reduced by one of ONNX's Reduce operators, with its sizes noted."""
    sizes = op.sizes(x)
    axes = axes_of(len(sizes), dim)
    vector = None if len(axes) == len(sizes) else op.const(axes, dtype=ir.DataType.INT64)
    result = op.call(op_type, x, vector, keepdims=int(keepdim))
    return op.typed(result, sizes_after(sizes, axes, keepdim))


def sizes_after(sizes: Sequence[Size], axes: Sequence[int], keepdim: bool) -> list[Size]:
    """The sizes of a tensor whose `axes` are reduced."""
    kept = [1 if axis in axes else size for axis, size in enumerate(sizes)]
    return kept if keepdim else [size for axis, size in enumerate(kept) if axis not in axes]


def counted(op: Op, x: Value, dim: Dims = None) -> Size:
    """Return the number of elements in each result of a reduction."""
    sizes = op.sizes(x)
    return product([sizes[axis] for axis in axes_of(len(sizes), dim)])


def may_be_empty(count: Size) -> bool:
    """Return True if a number of elements can be 0. Sizes of inputs never are: torch.export specializes on 0.

    Only 0 itself and sizes that depend on data remain.
    """
    return not count.is_positive if is_symbolic(count) else count == 0  # type: ignore[union-attr]  # symbolic


@lowering(aten.sum.default)
def sum_all(op: Op, x: Value, *, dtype: ir.DataType | None = None) -> Value:
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return sum_(op, x, None)


@lowering(aten.sum.dim_IntList)
def sum_(op: Op, x: Value, dim: Dims, keepdim: bool = False, *, dtype: ir.DataType | None = None) -> Value:
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor

    In the dtype of the result. ONNX Runtime adds integers up in double, so wide ones are added by CumSum, which wraps
    as PyTorch does; sums of narrow ones stay below 2**53.
    """
    narrow = x.dtype in NARROW
    x = _accumulable(op, x)
    if x.dtype == ir.DataType.INT64 and not narrow and not may_be_empty(counted(op, x, dim)):
        found = folded(op, x, dim, keepdim, lambda x, axis: op.CumSum(x, axis))
    else:
        found = reduced(op, "ReduceSum", x, dim, keepdim)
    return op.cast(found, op.out.dtype)


@lowering(aten.prod.default)
def prod_all(op: Op, x: Value, *, dtype: ir.DataType | None = None) -> Value:
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return _product(op, x, None, False)


@lowering(aten.prod.dim_int)
def prod(op: Op, x: Value, dim: int, keepdim: bool = False, *, dtype: ir.DataType | None = None) -> Value:
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return _product(op, x, dim, keepdim)


def _product(op: Op, x: Value, dim: Dims, keepdim: bool) -> Value:
    """In the dtype of the result; of integers by Mul, which wraps: ONNX Runtime's ReduceProd computes in double."""
    x = _accumulable(op, x)
    if x.dtype == ir.DataType.INT64 and not may_be_empty(counted(op, x, dim)):
        found = folded(op, x, dim, keepdim, lambda x, axis: running_product(op, x, axis))
    else:
        found = reduced(op, "ReduceProd", x, dim, keepdim)
    return op.cast(found, op.out.dtype)


def _accumulable(op: Op, x: Value) -> Value:
    """In the dtype of the result, to which PyTorch casts first; INT64 stands for BOOL and for all integers."""
    x = op.cast(x, op.out.dtype)
    return op.cast(x, ir.DataType.INT64) if is_integer(x.dtype) or x.dtype == ir.DataType.BOOL else x


def folded(op: Op, x: Value, dim: Dims, keepdim: bool, running: Callable[[Value, int], Value]) -> Value:
    """A reduction as the last of running values, one axis after the other."""
    sizes = op.sizes(x)
    axes = axes_of(len(sizes), dim)
    x, left = (flat(op, x), [0]) if len(axes) == len(sizes) > 0 else (x, axes)
    for axis in reversed(left):
        rest = sizes_after(op.sizes(x), [axis], False)
        x = op.typed(op.Gather(running(x, axis), -1, axis=axis), rest)
    return op.Unsqueeze(x, axes) if keepdim and axes else x


@lowering(aten.mean.default)
def mean_all(op: Op, x: Value, *, dtype: ir.DataType | None = None) -> Value:
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return mean(op, x, None)


@lowering(aten.mean.dim)
def mean(op: Op, x: Value, dim: Dims, keepdim: bool = False, *, dtype: ir.DataType | None = None) -> Value:
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return averaged(op, op.cast(x, op.out.dtype), dim, keepdim)


def averaged(op: Op, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    """The mean of floats; NaN for no elements, where ONNX leaves ReduceMean undefined."""
    count = counted(op, x, dim)
    if may_be_empty(count):
        return op.Div(reduced(op, "ReduceSum", x, dim, keepdim), op.const(count, like=x))
    return reduced(op, "ReduceMean", x, dim, keepdim)


@lowering(aten.any.default)
def any_(op: Op, x: Value) -> Value:
    """any(Tensor self) -> Tensor"""
    return _truth(op, "ReduceMax", x, None, False)


@lowering(aten.any.dim)
def any_dim(op: Op, x: Value, dim: int, keepdim: bool = False) -> Value:
    """any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
    return _truth(op, "ReduceMax", x, dim, keepdim)


@lowering(aten.any.dims)
def any_dims(op: Op, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False) -> Value:
    """any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor

    The empty list reduces nothing.
    """
    return _truth(op, "ReduceMax", x, dim, keepdim, untouched=dim is not None and not dim)


@lowering(aten.all.default)
def all_(op: Op, x: Value) -> Value:
    """all(Tensor self) -> Tensor"""
    return _truth(op, "ReduceMin", x, None, False)


@lowering(aten.all.dim)
def all_dim(op: Op, x: Value, dim: int, keepdim: bool = False) -> Value:
    """all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor"""
    return _truth(op, "ReduceMin", x, dim, keepdim)


@lowering(aten.all.dims)
def all_dims(op: Op, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False) -> Value:
    """all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    return _truth(op, "ReduceMin", x, dim, keepdim, untouched=dim is not None and not dim)


def _truth(op: Op, op_type: str, x: Value, dim: Dims, keepdim: bool, *, untouched: bool = False) -> Value:
    """Largest or smallest of the truth values. As bytes where there may be none of them: ONNX Runtime refuses that of
    BOOL, while the smallest and the largest byte are what `any` and `all` of nothing are."""
    x = op.cast(x, ir.DataType.BOOL)
    if not untouched and op.rank(x):
        carrier = ir.DataType.UINT8 if op.opset < 20 or may_be_empty(counted(op, x, dim)) else ir.DataType.BOOL
        x = op.cast(reduced(op, op_type, op.cast(x, carrier), dim, keepdim), ir.DataType.BOOL)
    return op.cast(x, op.out.dtype)
