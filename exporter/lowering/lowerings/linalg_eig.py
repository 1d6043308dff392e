"""Eigenvalues and eigenvectors of matrices that need not be symmetric, in a last axis of 2."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.complex_pairs import (
    Pair,
    choose,
    conjugate,
    gathered,
    largest_part,
    minus,
    product,
    quotient,
    scaled,
    times,
)
from fxport.exporter.lowering.lowerings.linalg_eigen import empty
from fxport.exporter.lowering.lowerings.linalg_matrices import eyes, reduced
from fxport.exporter.lowering.lowerings.linalg_schur import DOUBLE, EPS, INT64, Schur
from fxport.exporter.lowering.lowerings.loops import loop
from fxport.exporter.lowering.lowerings.shape import expanded

fxport = torch.ops.fxport

TINY = 2.0**-960
"""The least difference of eigenvalues to divide by: the quotient of a sum of products by it is finite."""


@lowering(fxport.eig.default)
def eig(op: Op, x: Value, vectors: bool) -> tuple[Value, Value]:
    """fxport::eig(Tensor x, bool vectors) -> (Tensor, Tensor)

    See `Schur`; computed in float64. The eigenvalues come in the order of the Schur form's diagonal, as LAPACK gives
    them, but which order that is depends on rounding and on the balancing that LAPACK does first, so it is not
    promised to be the same. Of a real matrix, conjugate pairs stand together, the one with positive imaginary part
    first. Vectors have length 1; the largest element of one that is not real is real and positive.
    """
    *batch, n, _, _ = op.sizes(x)
    if n == 0:
        return empty(op, op.outs[0].sizes, x), empty(op, op.outs[1].sizes, x)
    parts = Pair.of(op, x).parts
    a = Pair(*(op.cast(part, DOUBLE) for part in parts))
    rank = len(batch) + 2
    scale = largest_part(op, a, rank)
    unit = Pair(op.Div(a.re, scale), op.Div(a.im, scale)).sized(op, [*batch, n, n])
    start = _identity(op, batch, n)
    schur = Schur(op, batch, n)
    t, q = schur.form(unit, start if vectors else None)
    values = Pair(*(reduced(op, "ReduceSum", op.Where(schur.on, part, 0), rank, -2) for part in t.parts))
    flat = Pair(*(op.Squeeze(part, [rank - 2]) for part in scaled(op, values, scale).parts))
    found = op.cast(flat.packed(op, [*batch, n]), x.dtype)  # type: ignore[arg-type]  # of an ATen operand
    if q is None:
        return found, op.const([], dtype=x.dtype)
    unscaled = product(op, q, _triangle_vectors(schur, t, values, start))
    return found, op.cast(_normal(schur, unscaled).packed(op, [*batch, n, n]), x.dtype)  # type: ignore[arg-type]


def _identity(op: Op, batch: Sequence[Size], n: Size) -> Pair:
    return Pair(eyes(op, batch, n, n, DOUBLE), expanded(op, op.const(0, dtype=DOUBLE), [*batch, n, n]))


def _triangle_vectors(schur: Schur, t: Pair, values: Pair, start: Pair) -> Pair:
    """Eigenvectors of T by back substitution, row by row for all at once; each is scaled as it grows.

    Equal eigenvalues are taken to differ by eps, as LAPACK's trevc does.
    """
    op = schur.op
    size = op.Add(op.Abs(values.re), op.Abs(values.im))
    least = Pair(op.Max(op.Mul(size, EPS), op.const(TINY, dtype=DOUBLE)), schur.zero.im)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        place = op.Sub(op.const(schur.n - 1, dtype=INT64), turn)
        at, after = op.Unsqueeze(place, [0]), op.Greater(schur.columns, place)
        row, x = gathered(op, t, at, -2), Pair(*states)
        gap = minus(op, values, gathered(op, row, at, -1))
        close = op.Less(op.Add(op.Abs(gap.re), op.Abs(gap.im)), least.re)
        sums = product(op, choose(op, after, row, schur.zero), x)
        found = quotient(op, sums, choose(op, close, least, gap))
        found = choose(op, after, found, schur.zero)
        growth = op.Max(op.const(1, dtype=DOUBLE), op.Abs(found.re), op.Abs(found.im))
        x = choose(op, op.And(op.Equal(schur.rows, place), after), found, x)
        return None, [op.Div(part, growth) for part in x.parts]

    return Pair(*loop(op, schur.n, start.parts, step))


def _normal(schur: Schur, v: Pair) -> Pair:
    """Columns of length 1; where one is not real, its largest element is."""
    op, rank = schur.op, schur.rank
    squares = op.Add(op.Mul(v.re, v.re), op.Mul(v.im, v.im))
    length = op.Sqrt(reduced(op, "ReduceSum", squares, rank, -2))
    largest = op.Equal(schur.rows, op.ArgMax(squares, axis=rank - 2, keepdims=1))
    head = schur.element(v, largest)
    size = op.Sqrt(op.Add(op.Mul(head.re, head.re), op.Mul(head.im, head.im)))
    real = op.Equal(reduced(op, "ReduceMax", op.Abs(v.im), rank, -2), 0)
    phase = choose(op, real, Pair(op.const(1, dtype=DOUBLE), schur.zero.im), _over(op, conjugate(op, head), size))
    turned = _over(op, times(op, v, phase), length)
    return Pair(turned.re, op.Where(largest, 0, turned.im))


def _over(op: Op, a: Pair, divisor: Value) -> Pair:
    return Pair(op.Div(a.re, divisor), op.Div(a.im, divisor))
