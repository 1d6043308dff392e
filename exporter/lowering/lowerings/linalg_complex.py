"""LU and QR factorizations of complex matrices in a last axis of 2, as `complex_to_real` leaves them."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.complex_pairs import (
    Pair,
    choose,
    conjugate,
    gathered,
    inner,
    minus,
    quotient,
    times,
)
from fxport.exporter.lowering.lowerings.indices import arange
from fxport.exporter.lowering.lowerings.linalg_factor import to_lapack
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    columns_of,
    diagonal,
    first_true,
    reduced,
    rows_of,
    smaller,
)
from fxport.exporter.lowering.lowerings.loops import loop
from fxport.fx_passes import complex_matrices  # noqa: F401  # registers the ops

fxport = torch.ops.fxport

INT64 = ir.DataType.INT64


@lowering(fxport.lu_factor.default)
def lu_factor(op: Op, x: Value) -> tuple[Value, Value, Value]:
    """fxport::lu_factor(Tensor x) -> (Tensor, Tensor, Tensor)

    Gaussian elimination as in `linalg_factor.eliminated`. Like LAPACK, it takes the largest |re| + |im| for a pivot.
    """
    *batch, m, n, _ = op.sizes(x)
    rank, k = len(batch) + 2, smaller(m, n)
    rows, columns, steps = rows_of(op, m), columns_of(op, n), arange(op, k)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        a, pivots = Pair(states[0], states[1]), states[2]
        at = op.Unsqueeze(turn, [0])
        column = gathered(op, a, at, -1)
        size = op.Add(op.Abs(column.re), op.Abs(column.im))
        place = op.ArgMax(op.Where(op.Less(rows, turn), -1, size), axis=rank - 2, keepdims=1)
        here, there = op.Equal(rows, turn), op.Equal(rows, place)
        pivot_row = Pair(*(reduced(op, "ReduceSum", op.Where(there, part, 0), rank, -2) for part in a.parts))
        a = choose(op, here, pivot_row, choose(op, there, gathered(op, a, at, -2), a))
        factors = quotient(op, gathered(op, a, at, -1), gathered(op, pivot_row, at, -1))
        changed = choose(op, op.Equal(columns, turn), factors, minus(op, a, times(op, factors, pivot_row)))
        touched = op.And(op.Greater(rows, turn), op.GreaterOrEqual(columns, turn))
        noted = op.Where(op.Equal(steps, turn), op.Squeeze(place, [rank - 1]), pivots)
        return None, [*choose(op, touched, changed, a).parts, noted]

    start = op.typed(op.Expand(op.const(0, dtype=INT64), op.shape([*batch, k])), [*batch, k])
    re, im, pivots = loop(op, k, [*Pair.of(op, x).parts, start], step)
    pivot = op.Max(op.Abs(diagonal(op, re)), op.Abs(diagonal(op, im)))
    info = first_true(op, op.typed(op.Equal(pivot, 0), [*batch, k]))
    return Pair(re, im).packed(op, [*batch, m, n]), to_lapack(op, pivots), info


@lowering(fxport.geqrf.default)
def geqrf(op: Op, x: Value) -> tuple[Value, Value]:
    """fxport::geqrf(Tensor x) -> (Tensor, Tensor)

    See `reflected`.
    """
    *batch, m, n, _ = op.sizes(x)
    found, taus = reflected(op, Pair.of(op, x))
    return found.packed(op, [*batch, m, n]), taus.packed(op, [*batch, smaller(m, n)])


def reflected(op: Op, a: Pair) -> tuple[Pair, Pair]:
    """R with the reflections H = I - tau v vᴴ of Q = H₁ H₂ … below its diagonal, and the taus [..., min(m, n)].

    As `linalg_qr.reflected`, with LAPACK's larfg for complex numbers: the diagonal of R is real.
    """
    *batch, m, n = op.sizes(a.re)
    rank, k = len(batch) + 2, smaller(m, n)
    rows, columns, steps = rows_of(op, m), columns_of(op, n), arange(op, k)
    nought = Pair(op.const(0, like=a.re), op.const(0, like=a.re))

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        a, taus = Pair(*states[:2]), Pair(*states[2:])
        at = op.Unsqueeze(turn, [0])
        here, below = op.Equal(rows, turn), op.Greater(rows, turn)
        column = gathered(op, a, at, -1)
        head, tail = gathered(op, column, at, -2), choose(op, below, column, nought)
        v, tau, beta = reflection(op, head, tail, here, rank)
        turned = minus(op, a, times(op, times(op, v, conjugate(op, tau)), inner(op, v, a, rank)))
        stored = choose(op, here, Pair(beta, nought.im), choose(op, below, v, column))
        changed = choose(op, op.Greater(columns, turn), turned, a)
        after = choose(op, op.Equal(columns, turn), stored, changed)
        flat = Pair(*(op.Squeeze(part, [rank - 1]) for part in tau.parts))
        return None, [*after.parts, *choose(op, op.Equal(steps, turn), flat, taus).parts]

    zeros = op.typed(op.Expand(nought.re, op.shape([*batch, k])), [*batch, k])
    re, im, *taus = loop(op, k, [*a.parts, zeros, zeros], step)
    return Pair(re, im), Pair(*taus)


def reflection(op: Op, head: Pair, tail: Pair, here: Value, rank: int) -> tuple[Pair, Pair, Value]:
    """v and tau of the reflection that makes `tail` 0, and the real number beta that it makes of `head`.

    LAPACK's larfg; v is 1 `here`, where the column `tail` is 0. Where there is nothing to eliminate, tau is 0.
    """
    rest = op.Add(*(reduced(op, "ReduceSumSquare", part, rank, -2) for part in tail.parts))
    rest = op.Add(rest, op.Mul(head.im, head.im))
    length = op.Sqrt(op.Add(op.Mul(head.re, head.re), rest))
    done = op.Equal(rest, 0)
    beta = op.Where(done, head.re, op.Where(op.Less(head.re, 0), length, op.Neg(length)))
    divisor = op.Where(done, 1, beta)
    tau = Pair(op.Where(done, 0, op.Div(op.Sub(beta, head.re), divisor)), op.Neg(op.Div(head.im, divisor)))
    v = quotient(op, tail, Pair(op.Where(done, 1, op.Sub(head.re, beta)), head.im))
    one = Pair(op.const(1, like=beta), op.const(0, like=beta))
    return choose(op, here, one, v), tau, beta


@lowering(fxport.unmqr.default)
def unmqr(op: Op, a: Value, tau: Value, c: Value, adjoint: bool) -> Value:
    """fxport::unmqr(Tensor a, Tensor tau, Tensor c, bool adjoint) -> Tensor

    See `rotated`.
    """
    return rotated(op, Pair.of(op, a), Pair.of(op, tau), Pair.of(op, c), adjoint).packed(op, op.out.sizes[:-1])


def rotated(op: Op, a: Pair, taus: Pair, c: Pair, adjoint: bool = False) -> Pair:
    """Q C or Qᴴ C, for the reflections that are held below the diagonal of `a` [..., m, n]; C has the whole batch."""
    m, k = op.sizes(a.re)[-2], op.sizes(taus.re)[-1]
    rank = op.rank(c.re)
    rows, lead = rows_of(op, m), op.rank(taus.re)
    nought = Pair(op.const(0, like=a.re), op.const(0, like=a.re))

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        c = Pair(*states)
        place = turn if adjoint else op.Sub(op.const(k - 1, dtype=INT64), turn)
        at = op.Unsqueeze(place, [0])
        v = choose(op, op.Greater(rows, place), gathered(op, a, at, -1), nought)
        v = choose(op, op.Equal(rows, place), Pair(op.const(1, like=a.re), nought.im), v)
        tau = Pair(*(op.Unsqueeze(part, [lead]) for part in gathered(op, taus, at, -1).parts))
        tau = conjugate(op, tau) if adjoint else tau
        return None, list(minus(op, c, times(op, times(op, v, tau), inner(op, v, c, rank))).parts)

    return Pair(*loop(op, k, list(c.parts), step))
