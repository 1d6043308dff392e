"""New tensors: filled, counted, triangular, on the diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Size, Value
from fxport.exporter.lowering.lower.dtypes import is_integer
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import product
from fxport.exporter.lowering.lowerings.indices import arange as counted
from fxport.exporter.lowering.lowerings.shape import expanded
from fxport.fx_passes.sizes import is_symbolic

aten, prims = torch.ops.aten, torch.ops.prims

SPELLED_OUT = 16
"""Up to this many elements a filled tensor is a constant rather than a node."""

INT64, DOUBLE, BOOL = ir.DataType.INT64, ir.DataType.DOUBLE, ir.DataType.BOOL


@lowering(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_permuted.default,
    aten.empty_strided.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
    prims.empty_strided.default,
)
def zeros(op: Op, *_: Any, **__: Any) -> Value:
    """zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor

    Also what PyTorch leaves uninitialized.
    """
    return filled(op, 0)


@lowering(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(op: Op, *_: Any, **__: Any) -> Value:
    """ones(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"""
    return filled(op, 1)


@lowering(aten.full.default, aten.full_like.default)
def full(op: Op, like: Any, fill_value: Scalar, *, dtype: Any = None) -> Value:
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor

    The first argument is a list of sizes or a tensor that lends its own: the result's sizes are known either way.
    """
    return filled(op, fill_value)


@lowering(aten.new_full.default)
def new_full(op: Op, x: Value, size: list[Size], fill_value: Scalar, *, dtype: Any = None) -> Value:
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor"""
    return filled(op, fill_value)


@lowering(aten.fill.Scalar, aten.fill.Tensor)
def fill(op: Op, x: Value, value: Scalar | Value) -> Value:
    """fill.Scalar(Tensor self, Scalar value) -> Tensor"""
    return filled(op, value)


def filled(op: Op, value: Scalar | Value) -> Value:
    """One value all over the sizes of the result, in its dtype."""
    sizes, dtype = op.out.sizes, op.out.dtype
    if isinstance(value, ir.Value) or is_symbolic(value):
        scalar = op.typed(op.const(value, dtype=dtype), op.sizes(value) if isinstance(value, ir.Value) else ())
        return expanded(op, scalar, sizes)
    array = np.asarray(value).astype(dtype.numpy())
    count = product(sizes)
    if not is_symbolic(count) and count <= SPELLED_OUT:
        return op.const(np.full([int(size) for size in sizes], array))
    return op.ConstantOfShape(op.shape(sizes), value=array.reshape(1))


# Counted ------------------------------------------------------------------------------------------------------------


@lowering(aten.arange.default)
def arange(op: Op, end: Scalar, *, dtype: Any = None) -> Value:
    """arange(Scalar end, *, ScalarType? dtype=None) -> Tensor"""
    return progression(op, 0, 1)


@lowering(aten.arange.start, aten.arange.start_step)
def arange_from(op: Op, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Any = None) -> Value:
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None) -> Tensor"""
    return progression(op, start, step)


@lowering(prims.iota.default)
def iota(op: Op, length: Size, *, start: Size, step: Size, dtype: Any, requires_grad: bool) -> Value:
    """prims::iota(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, bool requires_grad) -> Tensor"""
    return progression(op, start, step)


def progression(op: Op, start: Scalar, step: Scalar) -> Value:
    """start, start + step, … in the result's length.

    Floats are each computed from their number, in DOUBLE as PyTorch does; ONNX Runtime's Range would add step by step.
    """
    (count,), dtype = op.out.sizes, op.out.dtype
    if is_integer(dtype):
        start, step = (value if is_symbolic(value) else int(value) for value in (start, step))  # type: ignore[arg-type]
    if not _is_float(start) and not _is_float(step):
        return op.cast(op.Range(start, start + count * step, step), dtype)
    scaled = op.Mul(op.cast(counted(op, count), DOUBLE), op.const(step, dtype=DOUBLE))
    return op.cast(op.Add(scaled, op.const(start, dtype=DOUBLE)), dtype)


def _is_float(value: Scalar) -> bool:
    return isinstance(value, float) or (is_symbolic(value) and not value.is_integer)  # type: ignore[union-attr]


# Matrices -----------------------------------------------------------------------------------------------------------


@lowering(aten.eye.default, aten.eye.m)
def eye(op: Op, n: Size, m: Size | None = None, *, dtype: Any = None) -> Value:
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None) -> Tensor"""
    rows, columns = op.out.sizes
    diagonal = op.Equal(op.Unsqueeze(counted(op, rows), [1]), op.Unsqueeze(counted(op, columns), [0]))
    return op.cast(diagonal, op.out.dtype)


@lowering(aten.tril.default)
def tril(op: Op, x: Value, diagonal: Size = 0) -> Value:
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return op.Trilu(x, diagonal, upper=0)


@lowering(aten.triu.default)
def triu(op: Op, x: Value, diagonal: Size = 0) -> Value:
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return op.Trilu(x, diagonal, upper=1)


@lowering(aten.tril_indices.default)
def tril_indices(op: Op, row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Value:
    """tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=long) -> Tensor"""
    return op.const(np.stack(np.tril_indices(row, offset, col)), dtype=op.out.dtype)


@lowering(aten.triu_indices.default)
def triu_indices(op: Op, row: int, col: int, offset: int = 0, *, dtype: Any = None) -> Value:
    """triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=long) -> Tensor"""
    return op.const(np.stack(np.triu_indices(row, offset, col)), dtype=op.out.dtype)
