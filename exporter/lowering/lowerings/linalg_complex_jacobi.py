"""Eigenvalues of Hermitian matrices and singular values of complex ones, in a last axis of 2."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import sliced
from fxport.exporter.lowering.lowerings.complex_pairs import (
    Pair,
    adjoint,
    choose,
    conjugate,
    largest_part,
    scaled,
    times,
)
from fxport.exporter.lowering.lowerings.linalg_complex import reflected, rotated
from fxport.exporter.lowering.lowerings.linalg_eigen import empty, ordered
from fxport.exporter.lowering.lowerings.linalg_jacobi import Rotation, Tournament, rotation
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    EPSILON,
    columns_of,
    diagonal,
    eyes,
    leading,
    reduced,
    rows_of,
    smaller,
)
from fxport.exporter.lowering.lowerings.loops import any_of, loop
from fxport.exporter.lowering.lowerings.shape import expanded

fxport = torch.ops.fxport


def _phases(op: Op, a: Pair, partner: Value, rank: int) -> Pair:
    """Compute the factors, for each column in a row, that make the elements of a Hermitian matrix between partners
    real.
    """
    *_, n = op.sizes(a.re)
    met, columns = op.Equal(rows_of(op, n), partner), columns_of(op, n)
    shared = Pair(*(reduced(op, "ReduceSum", op.Where(met, part, 0), rank, -2) for part in a.parts))
    size = op.Max(op.Abs(shared.re), op.Abs(shared.im))
    second = op.And(op.Less(partner, columns), op.Greater(size, 0))
    unit = scaled(op, shared, op.Reciprocal(op.Where(second, size, 1)))
    length = op.Where(second, op.Sqrt(op.Add(op.Mul(unit.re, unit.re), op.Mul(unit.im, unit.im))), 1)
    one = Pair(op.const(1, like=a.re), op.const(0, like=a.re))
    return choose(op, second, Pair(op.Div(unit.re, length), op.Neg(op.Div(unit.im, length))), one)


def _turned(op: Op, a: Pair, phases: Pair, plane: Rotation) -> Pair:
    """Columns with new phases, rotated in pairs."""
    return Pair(*(plane.columns(op, part) for part in times(op, a, phases).parts))


def _rows_phased(op: Op, a: Pair, phases: Pair, rank: int) -> Pair:
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    return times(op, a, conjugate(op, Pair(*(op.Transpose(part, perm=swapped) for part in phases.parts))))


@lowering(fxport.eigh.default)
def eigh(op: Op, x: Value) -> tuple[Value, Value]:
    """fxport::eigh(Tensor x) -> (Tensor, Tensor)

    Jacobi's algorithm as in `linalg_eigen.diagonalized`: of each pair, phases make real the element that the rotation
    makes zero.
    """
    *batch, n, _, _ = op.sizes(x)
    if n == 0:
        return empty(op, op.outs[0].sizes, x), empty(op, op.outs[1].sizes, x)
    rank, a = len(batch) + 2, Pair.of(op, x)
    scale = largest_part(op, a, rank)
    unit = Pair(op.Div(a.re, scale), op.Div(a.im, scale)).sized(op, [*batch, n, n])
    tournament, tiny = Tournament.of(op, n), EPSILON[x.dtype] / 2  # type: ignore[index]  # FLOAT or DOUBLE
    rows, columns = rows_of(op, n), columns_of(op, n)
    on = op.Equal(rows, columns)

    def step(turn: Value, states: Values) -> tuple[Value, list[Value]]:
        a, vectors, partner = Pair(*states[:2]), Pair(*states[2:]), tournament.partner(op, turn)
        phases = _phases(op, a, partner, rank)
        phased = times(op, _rows_phased(op, a, phases, rank), phases)
        plane = rotation(op, phased.re, partner, rank, n)
        after = Pair(*(plane.rows(op, plane.columns(op, part), rank) for part in phased.parts))
        met = op.And(op.Equal(rows, plane.partner), op.Not(on))
        re = op.Where(met, 0, after.re)
        im = op.Where(op.Or(met, on), 0, after.im)
        left = op.And(op.Greater(op.Max(op.Abs(re), op.Abs(im)), tiny), op.Not(on))
        return any_of(op, left), [re, im, *_turned(op, vectors, phases, plane).parts]

    start = [*unit.parts, eyes(op, batch, n, n, x.dtype), _zeros(op, x, [*batch, n, n])]
    found, _, *vectors = loop(op, tournament.turns(op), start, step)
    values, order = op.TopK(diagonal(op, found), op.shape([n]), axis=rank - 2, largest=0, outputs=2)
    values = op.typed(op.Mul(values, op.Squeeze(scale, [rank - 1])), [*batch, n])
    return values, Pair(*(ordered(op, part, order) for part in vectors)).packed(op, [*batch, n, n])


def _zeros(op: Op, like: Value, sizes: Sequence[Size]) -> Value:
    return expanded(op, op.const(0, like=like), sizes)


@lowering(fxport.svd.default)
def svd(op: Op, x: Value, full: bool) -> tuple[Value, Value, Value]:
    """fxport::svd(Tensor x, bool full) -> (Tensor, Tensor, Tensor)

    One-sided Jacobi as in `linalg_svd.decomposed`; of each pair of columns, a phase makes their product real. A matrix
    that is known to be wide goes by its adjoint.
    """
    *batch, m, n, _ = op.sizes(x)
    us, vs = op.outs[0].sizes[:-1], op.outs[2].sizes[:-1]
    if 0 in (m, n):
        u, v = (Pair(eyes(op, batch, each[-2], each[-1], x.dtype), _zeros(op, x, each)) for each in (us, vs))
        return u.packed(op, us), empty(op, op.outs[1].sizes, x), v.packed(op, vs)
    a = Pair.of(op, x)
    wide = isinstance(m, int) and isinstance(n, int) and m < n
    u, s, v = _decomposed(op, adjoint(op, a) if wide else a, full)
    u, v = (v, u) if wide else (u, v)
    return u.packed(op, us), s, adjoint(op, v).packed(op, vs)


def _decomposed(op: Op, a: Pair, full: bool) -> tuple[Pair, Value, Pair]:
    *batch, m, n = op.sizes(a.re)
    rank, k = len(batch) + 2, smaller(m, n)
    wide = m if full else k
    scale = largest_part(op, a, rank)
    unit = Pair(op.Div(a.re, scale), op.Div(a.im, scale)).sized(op, [*batch, m, n])
    off, tournament = op.Not(op.Equal(rows_of(op, n), columns_of(op, n))), Tournament.of(op, n)
    cosine = op.Mul(op.const(m, like=a.re), EPSILON[a.re.dtype])  # type: ignore[index]  # FLOAT or DOUBLE
    swapped = [*range(rank - 2), rank - 1, rank - 2]

    def step(turn: Value, states: Values) -> tuple[Value, list[Value]]:
        w, v, partner = Pair(*states[:2]), Pair(*states[2:]), tournament.partner(op, turn)
        turned = Pair(*(op.Transpose(part, perm=swapped) for part in w.parts))
        products = Pair(
            op.Add(op.MatMul(turned.re, w.re), op.MatMul(turned.im, w.im)),
            op.Sub(op.MatMul(turned.re, w.im), op.MatMul(turned.im, w.re)),
        ).sized(op, [*batch, n, n])
        lengths = op.Sqrt(reduced(op, "ReduceSum", op.Where(off, 0, products.re), rank, -2))
        limit = op.Mul(op.Mul(lengths, op.Transpose(lengths, perm=swapped)), cosine)
        left = op.And(op.Greater(op.Max(op.Abs(products.re), op.Abs(products.im)), limit), off)
        phases = _phases(op, products, partner, rank)
        plane = rotation(op, times(op, _rows_phased(op, products, phases, rank), phases).re, partner, rank, n)
        return any_of(op, left), [part for each in (w, v) for part in _turned(op, each, phases, plane).parts]

    start = [*unit.parts, eyes(op, batch, n, n, a.re.dtype), _zeros(op, a.re, [*batch, n, n])]
    found = loop(op, tournament.turns(op), start, step)
    w, v = Pair(*found[:2]), Pair(*found[2:])
    squares = op.Add(*(reduced(op, "ReduceSumSquare", part, rank, -2, keepdims=0) for part in w.parts))
    s, order = op.TopK(op.Sqrt(squares), op.shape([n]), axis=rank - 2, outputs=2)
    held, taus = reflected(op, Pair(*(ordered(op, part, order) for part in w.parts)))
    signs = op.Where(op.Less(diagonal(op, held.re), 0), op.const(-1, like=a.re), 1)
    if wide != k:
        signs = op.Concat(signs, op.Expand(op.const(1, like=signs), op.shape([*batch, wide - k])), axis=len(batch))
    start_u = Pair(eyes(op, batch, m, wide, a.re.dtype), _zeros(op, a.re, [*batch, m, wide]))
    q = rotated(op, held, taus, start_u)
    u = scaled(op, q, op.Unsqueeze(signs, [len(batch)])).sized(op, [*batch, m, wide])
    right = Pair(*(ordered(op, part, order) for part in v.parts))
    right = right if full else Pair(*(leading(op, part, n, k) for part in right.parts))
    s = op.typed(op.Mul(s, op.Squeeze(scale, [rank - 1])), [*batch, n])
    return u, s if k == n else sliced(op, s, rank - 2, 0, k), right
