"""QR factorization by Householder reflections, and products with the reflections."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.indices import arange, broadcast
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    columns_of,
    eyes,
    flipped,
    leading,
    reduced,
    rows_of,
    smaller,
    triangle,
)
from fxport.exporter.lowering.lowerings.loops import loop
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten


def reflected(op: Op, a: Value) -> tuple[Value, Value]:
    """R with the reflections H = I - tau v vᵀ of Q = H₁ H₂ … below its diagonal, and the taus [..., min(m, n)].

    Householder QR (Golub & Van Loan, algorithm 5.2.1) with LAPACK's signs and scale (larfg): v begins with 1, the
    diagonal of R has the sign opposite to the column it comes from, and tau is 0 where there is nothing to eliminate.
    R is exact for a matrix that differs from A by c m n u ‖aⱼ‖ at most in each column, for a small c (Higham, Accuracy
    and Stability, theorem 19.4).
    """
    *batch, m, n = op.sizes(a)
    rank, k = len(batch) + 2, smaller(m, n)
    rows, columns, steps = rows_of(op, m), columns_of(op, n), arange(op, k)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        a, taus = states
        at = op.Unsqueeze(turn, [0])
        here, below = op.Equal(rows, turn), op.Greater(rows, turn)
        column = op.Gather(a, at, axis=-1)
        head, tail = op.Gather(column, at, axis=-2), op.Where(below, column, 0)
        rest = reduced(op, "ReduceSumSquare", tail, rank, -2)
        length = op.Sqrt(op.Add(op.Mul(head, head), rest))
        nothing = op.Equal(rest, 0)
        beta = op.Where(nothing, head, op.Where(op.Less(head, 0), length, op.Neg(length)))
        tau = op.Where(nothing, 0, op.Div(op.Sub(beta, head), beta))
        tail = op.Div(tail, op.Where(nothing, 1, op.Sub(head, beta)))
        v = op.Where(here, 1, tail)
        turned = op.Sub(a, op.Mul(op.Mul(v, tau), _inner(op, v, a, rank)))
        stored = op.Where(here, beta, op.Where(below, tail, column))
        changed = op.Where(op.Greater(columns, turn), turned, a)
        tau = op.Squeeze(tau, [rank - 1])
        return None, [op.Where(op.Equal(columns, turn), stored, changed), op.Where(op.Equal(steps, turn), tau, taus)]

    taus = op.typed(op.Expand(op.const(0, dtype=a.dtype), op.shape([*batch, k])), [*batch, k])
    found, taus = loop(op, k, [a, taus], step)
    return found, taus


def rotated(op: Op, a: Value, taus: Value, c: Value, transposed: bool = False) -> Value:
    """Q C or Qᵀ C, for the reflections that are held below the diagonal of `a` [..., m, n]; C has the whole batch."""
    m, k = op.sizes(a)[-2], op.sizes(taus)[-1]
    rank = op.rank(c)
    rows = rows_of(op, m)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        (c,) = states
        place = turn if transposed else op.Sub(op.const(k - 1, dtype=ir.DataType.INT64), turn)
        at = op.Unsqueeze(place, [0])
        held = op.Where(op.Greater(rows, place), op.Gather(a, at, axis=-1), 0)
        v = op.Where(op.Equal(rows, place), 1, held)
        tau = op.Unsqueeze(op.Gather(taus, at, axis=-1), [op.rank(taus)])
        return None, [op.Sub(c, op.Mul(op.Mul(v, tau), _inner(op, v, c, rank)))]

    return loop(op, k, [c], step)[0]


def _inner(op: Op, v: Value, a: Value, rank: int) -> Value:
    """vᵀ A, as a row. For the few rows of a column a sum of products is as fast as a product of matrices."""
    return reduced(op, "ReduceSum", op.Mul(v, a), rank, -2)


@lowering(aten.geqrf.default)
def geqrf(op: Op, x: Value) -> tuple[Value, Value]:
    """geqrf(Tensor self) -> (Tensor a, Tensor tau)

    See `reflected`.
    """
    return reflected(op, x)


@lowering(aten.linalg_qr.default)
def linalg_qr(op: Op, A: Value, mode: str = "reduced") -> tuple[Value, Value]:
    """linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)

    See `reflected`; Q is orthogonal to c m n u. In the mode "r", Q is an empty tensor.
    """
    *batch, m, n = op.sizes(A)
    k = m if mode == "complete" else smaller(m, n)
    held, taus = reflected(op, A)
    r = triangle(op, leading(op, held, k, n), upper=True)
    if mode == "r":
        return op.const([], dtype=A.dtype), r
    return rotated(op, held, taus, eyes(op, batch, m, k, A.dtype)), r


@lowering(aten.linalg_householder_product.default)
def linalg_householder_product(op: Op, x: Value, tau: Value) -> Value:
    """linalg_householder_product(Tensor input, Tensor tau) -> Tensor

    The first columns of H₁ H₂ …
    """
    *batch, m, n = op.sizes(x)
    return rotated(op, x, tau, eyes(op, batch, m, n, x.dtype))


@lowering(aten.ormqr.default)
def ormqr(op: Op, x: Value, tau: Value, other: Value, left: bool = True, transpose: bool = False) -> Value:
    """ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor

    C Q is the transpose of Qᵀ Cᵀ.
    """
    c = other if left else flipped(op, other)
    batch = broadcast([op.sizes(x)[:-2], op.sizes(c)[:-2]])
    c = expanded(op, c, [*batch, *op.sizes(c)[-2:]])
    found = rotated(op, x, tau, c, transposed=transpose == left)
    return found if left else flipped(op, found)
