"""Batches of matrices [..., m, n]: what the factorizations have in common.

Their loops change the whole matrix in each turn, under masks of rows and columns: a few elementwise nodes, which every
runtime has, instead of gathers and scatters of blocks whose sizes change.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from torch.utils._sympy.functions import Max, Min

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lowerings.axes import sliced
from fxport.exporter.lowering.lowerings.indices import arange
from fxport.exporter.lowering.lowerings.shape import expanded
from fxport.fx_passes.sizes import is_symbolic

EPSILON = {ir.DataType.FLOAT: 2.0**-23, ir.DataType.DOUBLE: 2.0**-52}
"""The distance from 1 to the next number."""


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    return Min(a, b) if is_symbolic(a) or is_symbolic(b) else min(a, b)  # type: ignore[return-value,type-var]


def larger(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    return Max(a, b) if is_symbolic(a) or is_symbolic(b) else max(a, b)  # type: ignore[return-value,type-var]


def columns_of(op: Op, n: Size) -> Value:
    """The numbers of n columns, INT64 [n]: compares with a matrix as a row does."""
    return arange(op, n)


def rows_of(op: Op, m: Size) -> Value:
    """The numbers of m rows, INT64 [m, 1]: compares with a matrix as a column does."""
    return op.Unsqueeze(arange(op, m), [1])


def flipped(op: Op, a: Value) -> Value:
    """The matrices transposed."""
    *batch, m, n = op.sizes(a)
    rank = len(batch) + 2
    return op.typed(op.Transpose(a, perm=[*range(rank - 2), rank - 1, rank - 2]), [*batch, n, m])


def eye(op: Op, m: Size, n: Size, dtype: ir.DataType | None) -> Value:
    """Ones on the diagonal of [m, n]."""
    return op.typed(op.Cast(op.Equal(rows_of(op, m), columns_of(op, n)), to=dtype), [m, n])


def eyes(op: Op, batch: Sequence[Size], m: Size, n: Size, dtype: ir.DataType | None) -> Value:
    """`eye` for every matrix of a batch."""
    return expanded(op, eye(op, m, n, dtype), [*batch, m, n])


def diagonal(op: Op, a: Value) -> Value:
    """The diagonals, [..., min(m, n)]."""
    *batch, m, n = op.sizes(a)
    k = smaller(m, n)
    square = a if k == m else sliced(op, a, len(batch), 0, k)
    on_diagonal = op.Equal(rows_of(op, k), columns_of(op, n))
    chosen = op.Where(on_diagonal, square, 0)
    return op.typed(reduced(op, "ReduceSum", chosen, len(batch) + 2, -1, keepdims=0), [*batch, k])


def leading(op: Op, a: Value, m: Size, n: Size) -> Value:
    """The first m rows of the first n columns."""
    *batch, rows, columns = op.sizes(a)
    if m != rows:
        a = sliced(op, a, len(batch), 0, m)
    if n != columns:
        a = sliced(op, a, len(batch) + 1, 0, n)
    return op.typed(a, [*batch, m, n])


def triangle(op: Op, a: Value, upper: bool, k: int = 0) -> Value:
    """The upper or lower triangle from the k-th diagonal on; zeros elsewhere."""
    return op.typed(op.Trilu(a, k or None, upper=int(upper)), op.sizes(a))


def unit_lower(op: Op, a: Value) -> Value:
    """The triangle below the diagonal, with ones on the diagonal."""
    m, n = op.sizes(a)[-2:]
    return op.typed(op.Add(triangle(op, a, upper=False, k=-1), eye(op, m, n, a.dtype)), op.sizes(a))


def first_true(op: Op, wrong: Value) -> Value:
    """LAPACK's info: the number from 1 on of the first true along the last axis, 0 where there is none, as INT32."""
    *batch, n = op.sizes(wrong)
    after = op.Where(wrong, op.Sub(op.const(n, dtype=ir.DataType.INT64), columns_of(op, n)), 0)
    start = op.const([0], dtype=ir.DataType.INT64)  # for matrices without a column, whose maximum ONNX leaves open
    padded = op.Concat(after, op.Expand(start, op.shape([*batch, 1])), axis=len(batch))
    best = reduced(op, "ReduceMax", padded, len(batch) + 1, -1, keepdims=0)
    number = op.Where(op.Equal(best, 0), 0, op.Sub(op.const(n + 1, dtype=ir.DataType.INT64), best))
    return op.Cast(number, to=ir.DataType.INT32)


def reduced(op: Op, kind: str, x: Value, rank: int, axis: int, keepdims: int = 1) -> Value:
    """Rows (-1) or columns (-2) reduced by ONNX's `kind`. ONNX Runtime takes negative axes of empty tensors wrongly."""
    return op.call(kind, x, [rank + axis], keepdims=keepdims)
