"""Eigenvalues and eigenvectors of symmetric matrices."""

from __future__ import annotations

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.linalg_jacobi import Tournament, rotation
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    EPSILON,
    columns_of,
    diagonal,
    eyes,
    flipped,
    reduced,
    rows_of,
    triangle,
)
from fxport.exporter.lowering.lowerings.loops import any_of, loop
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten


def eigenpairs(op: Op, a: Value) -> tuple[Value, Value]:
    """Eigenvalues of symmetric matrices in ascending order, and the eigenvectors as columns. See `diagonalized`."""
    *batch, n, _ = op.sizes(a)
    values, order, vectors = diagonalized(op, a, [eyes(op, batch, n, n, a.dtype)])
    return values, ordered(op, vectors, order)


def diagonalized(op: Op, a: Value, others: Values = ()) -> tuple[Value, ...]:
    """Eigenvalues of symmetric matrices in ascending order, the order that sorted them, others whose columns turned.

    Jacobi's algorithm, n/2 rotations at once (Golub & Van Loan, sections 8.5.2 and 8.5.6), until no element off the
    diagonal is larger than u of the largest of A. Then the eigenvalues are exact for a matrix that differs by p(n) u
    ‖A‖, with a modest p. The sign of a vector, and the choice of vectors for equal eigenvalues, are free.
    """
    *batch, n, _ = op.sizes(a)
    rank = len(batch) + 2
    unit, scale = scaled(op, a)
    tournament, tiny = Tournament.of(op, n), EPSILON[a.dtype] / 2  # type: ignore[index]  # FLOAT or DOUBLE
    rows, columns = rows_of(op, n), columns_of(op, n)
    off = op.Not(op.Equal(rows, columns))

    def step(turn: Value, states: Values) -> tuple[Value, list[Value]]:
        plane = rotation(op, states[0], tournament.partner(op, turn), rank, n)
        after = plane.rows(op, plane.columns(op, states[0]), rank)
        met = op.And(op.Equal(rows, plane.partner), off)
        after = op.Where(met, 0, after)
        left = op.And(op.Greater(op.Abs(after), tiny), off)
        return any_of(op, left), [after, *(plane.columns(op, v) for v in states[1:])]

    found, *turned = loop(op, tournament.turns(op), [unit, *others], step)
    values, order = op.TopK(diagonal(op, found), op.shape([n]), axis=rank - 2, largest=0, outputs=2)
    values = op.typed(op.Mul(values, op.Squeeze(scale, [rank - 1])), [*batch, n])
    return values, order, *turned


def scaled(op: Op, a: Value) -> tuple[Value, Value]:
    """Matrices whose largest element is 1, so that no square overflows, and by what they are to be multiplied."""
    rank = op.rank(a)
    largest = reduced(op, "ReduceMax", reduced(op, "ReduceMax", op.Abs(a), rank, -1), rank, -2)
    scale = op.Where(op.Equal(largest, 0), 1, largest)
    return op.typed(op.Div(a, scale), op.sizes(a)), scale


def ordered(op: Op, columns: Value, order: Value) -> Value:
    """Columns in another order, INT64 [..., n]."""
    *batch, m, n = op.sizes(columns)
    row = op.typed(op.Unsqueeze(order, [len(batch)]), [*batch, 1, n])
    places = expanded(op, row, [*batch, m, n])
    return op.typed(op.GatherElements(columns, places, axis=len(batch) + 1), op.sizes(columns))


def mirrored(op: Op, a: Value, upper: bool) -> Value:
    """The symmetric matrices of which one triangle is given."""
    half = triangle(op, a, upper=upper)
    strict = triangle(op, a, upper=upper, k=1 if upper else -1)
    return op.typed(op.Add(half, flipped(op, strict)), op.sizes(a))


@lowering(aten._linalg_eigh.default)
def linalg_eigh(op: Op, A: Value, UPLO: str = "L", compute_v: bool = True) -> tuple[Value, Value]:
    """_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)

    See `diagonalized`. Vectors that are not asked for are an empty tensor.
    """
    if op.sizes(A)[-1] == 0:
        return empty(op, op.outs[0].sizes, A), empty(op, op.outs[1].sizes, A)
    a = mirrored(op, A, UPLO.upper() == "U")
    return eigenpairs(op, a) if compute_v else (diagonalized(op, a)[0], op.const([], dtype=A.dtype))


def empty(op: Op, sizes: tuple[Size, ...], like: Value) -> Value:
    """A tensor without an element."""
    return op.typed(op.Expand(op.const(0, like=like), op.shape(sizes)), sizes)
