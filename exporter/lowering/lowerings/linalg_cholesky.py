"""Cholesky factorization, and what is solved with it."""

from __future__ import annotations

import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.indices import broadcast
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    columns_of,
    diagonal,
    eyes,
    first_true,
    flipped,
    rows_of,
    triangle,
)
from fxport.exporter.lowering.lowerings.linalg_solve import substituted
from fxport.exporter.lowering.lowerings.loops import loop
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten


def factored(op: Op, a: Value) -> Value:
    """The lower triangular L of L Lᵀ = A, of which only the lower triangle is read; NaN from where A is not positive.

    By outer products (Golub & Van Loan, section 4.2.5): L Lᵀ differs from A by (n + 1) u |L| |Lᵀ| at most in each
    element (Higham, Accuracy and Stability, theorem 10.3).
    """
    n = op.sizes(a)[-1]
    rows, columns = rows_of(op, n), columns_of(op, n)
    rank = op.rank(a)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        (a,) = states
        at = op.Unsqueeze(turn, [0])
        column = op.Gather(a, at, axis=-1)
        scaled = op.Div(column, op.Sqrt(op.Gather(column, at, axis=-2)))
        column = op.Where(op.Less(rows, turn), column, scaled)
        row = op.Transpose(column, perm=[*range(rank - 2), rank - 1, rank - 2])
        rest = op.Where(op.Greater(columns, turn), op.Sub(a, op.Mul(column, row)), a)
        return None, [op.Where(op.Equal(columns, turn), column, rest)]

    return triangle(op, loop(op, n, [a], step)[0], upper=False)


@lowering(aten.linalg_cholesky_ex.default)
def linalg_cholesky_ex(op: Op, x: Value, *, upper: bool = False, check_errors: bool = False) -> tuple[Value, Value]:
    """linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)

    ONNX has no errors to raise: where the leading minor is not positive is said in `info`.
    """
    found = factored(op, flipped(op, x) if upper else x)
    pivots = diagonal(op, found)
    info = first_true(op, op.typed(op.Not(op.Greater(pivots, 0)), op.sizes(pivots)))
    return flipped(op, found) if upper else found, info


@lowering("aten.cholesky.default")  # PyTorch 2.15 has it no longer
def cholesky(op: Op, x: Value, upper: bool = False) -> Value:
    """cholesky(Tensor self, bool upper=False) -> Tensor"""
    return linalg_cholesky_ex.function(op, x, upper=upper)[0]


@lowering(aten.cholesky_solve.default)
def cholesky_solve(op: Op, x: Value, input2: Value, upper: bool = False) -> Value:
    """cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor

    Two substitutions, for L and for its transpose.
    """
    batch = broadcast([op.sizes(x)[:-2], op.sizes(input2)[:-2]])
    return _solved(op, input2, expanded(op, x, [*batch, *op.sizes(x)[-2:]]), upper)


@lowering(aten.cholesky_inverse.default)
def cholesky_inverse(op: Op, x: Value, upper: bool = False) -> Value:
    """cholesky_inverse(Tensor self, bool upper=False) -> Tensor"""
    *batch, n, _ = op.sizes(x)
    return _solved(op, x, eyes(op, batch, n, n, x.dtype), upper)


def _solved(op: Op, factor: Value, b: Value, upper: bool) -> Value:
    turned = flipped(op, factor)
    lower, above = (turned, factor) if upper else (factor, turned)
    return substituted(op, above, substituted(op, lower, b, upper=False), upper=True)
