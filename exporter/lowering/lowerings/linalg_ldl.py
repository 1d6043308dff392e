"""Factorization of symmetric matrices that need not be definite, and solutions by it."""

from __future__ import annotations

from math import sqrt

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.linalg_eigen import empty
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    columns_of,
    diagonal,
    first_true,
    flipped,
    reduced,
    rows_of,
    triangle,
)
from fxport.exporter.lowering.lowerings.loops import loop

aten = torch.ops.aten

INT64 = ir.DataType.INT64
ALPHA = (1 + sqrt(17)) / 8
"""Least ratio of a pivot to the rest of its column, by which the factors grow least (Bunch & Kaufman, 1977)."""


@lowering(aten.linalg_ldl_factor_ex.default)
def linalg_ldl_factor_ex(
    op: Op, x: Value, *, hermitian: bool = False, check_errors: bool = False
) -> tuple[Value, Value, Value]:
    """linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) \
-> (Tensor LD, Tensor pivots, Tensor info)

    See `_factored`. ONNX has no errors to raise: a zero pivot shows in `info`.
    """
    if 0 in op.sizes(x):
        info = op.Expand(op.const(0, dtype=ir.DataType.INT32), op.shape(op.sizes(x)[:-2]))
        return empty(op, op.outs[0].sizes, x), op.cast(empty(op, op.outs[1].sizes, x), ir.DataType.INT32), info
    ld, pivots = _factored(op, x)
    values = diagonal(op, ld)
    singular = op.typed(op.And(op.Equal(values, 0), op.Greater(pivots, 0)), op.sizes(values))
    return ld, op.Cast(pivots, to=ir.DataType.INT32), first_true(op, singular)


@lowering(aten.linalg_ldl_factor.default)
def linalg_ldl_factor(op: Op, x: Value, *, hermitian: bool = False) -> tuple[Value, Value]:
    """linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)"""
    ld, pivots, _ = linalg_ldl_factor_ex(op, x, hermitian=hermitian)
    return ld, pivots


def _factored(op: Op, x: Value) -> tuple[Value, Value]:
    """P A Pᵀ = L D Lᵀ of the lower triangles, as LAPACK's sytrf stores it, with its pivots: INT64 [..., n].

    Diagonal pivoting by Bunch & Kaufman (Golub & Van Loan, Matrix Computations, 4th ed., section 4.4.4): D has blocks
    of 1 or 2 rows. A turn is a column; the second column of a block has nothing left to do. The factors are exact for a
    matrix that is nearer to A than c n² u ‖|L||D||Lᵀ|‖ (Higham, Accuracy and Stability, theorem 11.3).
    """
    *batch, n, _ = op.sizes(x)
    rank = len(batch) + 2
    rows, columns = rows_of(op, n), columns_of(op, n)
    lower = triangle(op, x, upper=False)
    whole = op.Add(lower, flipped(op, triangle(op, x, upper=False, k=-1)))

    def rows_reduced(kind: str, a: Value) -> Value:
        return reduced(op, kind, a, rank, -2)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        rest, factors, pivots, done = states
        at = op.Unsqueeze(turn, [0])
        after = op.Min(op.Add(at, 1), n - 1)

        column = op.Gather(rest, at, axis=-1)
        below = op.Where(op.Greater(rows, turn), op.Abs(column), -1)
        widest = op.Max(rows_reduced("ReduceMax", below), op.const(0, like=x))
        place = op.ArgMax(below, axis=rank - 2, keepdims=1)
        pivot = op.Abs(op.Gather(column, at, axis=-2))
        there = op.Equal(rows, place)
        other = reduced(op, "ReduceSum", op.Where(op.Equal(columns, place), rest, 0), rank, -1)
        widest_there = rows_reduced("ReduceMax", op.Where(there, 0, op.Abs(other)))
        pivot_there = rows_reduced("ReduceSum", op.Where(there, op.Abs(other), 0))

        limit = op.Mul(op.Mul(widest, ALPHA), op.Div(widest, op.Where(op.Equal(widest_there, 0), 1, widest_there)))
        stays = op.Or(op.GreaterOrEqual(pivot, op.Mul(widest, ALPHA)), op.GreaterOrEqual(pivot, limit))
        moves = op.GreaterOrEqual(pivot_there, op.Mul(widest_there, ALPHA))
        double = op.Not(op.Or(stays, moves))
        source = op.Where(stays, turn, place)
        target = op.Where(double, op.Add(turn, 1), turn)
        moved = _swapped(op, flipped(op, _swapped(op, rest, source, target)), source, target)

        first, second = op.Gather(moved, at, axis=-1), op.Gather(moved, after, axis=-1)
        single_column, update = _by_one(op, first, at, rows)
        first_column, second_column, double_update = _by_two(op, first, second, double, at, after, rows)
        left = op.Sub(moved, op.Where(double, double_update, update))
        start = op.Where(double, op.Add(turn, 1), turn)
        left = op.Where(op.And(op.Greater(rows, start), op.Greater(columns, start)), left, 0)

        here, next_one = op.Equal(columns, turn), op.And(double, op.Equal(columns, op.Add(turn, 1)))
        written = op.Where(here, op.Where(double, first_column, single_column), factors)
        written = op.Where(next_one, second_column, written)
        number = op.Add(source, 1)
        noted = op.Where(op.Or(here, next_one), op.Where(double, op.Neg(number), number), pivots)
        return None, [
            op.Where(done, rest, left),
            op.Where(done, factors, written),
            op.Where(done, pivots, noted),
            op.And(double, op.Not(done)),
        ]

    zeros = op.typed(op.Expand(op.const(0, dtype=INT64), op.shape([*batch, 1, n])), [*batch, 1, n])
    going = op.typed(op.Expand(op.const(False), op.shape([*batch, 1, 1])), [*batch, 1, 1])
    _, factors, pivots, _ = loop(op, n, [op.typed(whole, op.sizes(x)), lower, zeros, going], step)
    return factors, op.typed(op.Squeeze(pivots, [rank - 2]), [*batch, n])


def _swapped(op: Op, a: Value, one: Value, other: Value) -> Value:
    """Rows `one` and `other` exchanged; both are INT64 [..., 1, 1]."""
    *_, m, _ = op.sizes(a)
    rows = rows_of(op, m)
    order = op.Where(op.Equal(rows, one), other, op.Where(op.Equal(rows, other), one, rows))
    places = op.Expand(order, op.shape(op.sizes(a)))
    return op.typed(op.GatherElements(a, places, axis=op.rank(a) - 2), op.sizes(a))


def _transposed(op: Op, column: Value) -> Value:
    """[..., n, 1] as [..., 1, n]; the rank is that of the matrix being lowered."""
    rank = op.outs[0].rank
    return op.Transpose(column, perm=[*range(rank - 2), rank - 1, rank - 2])


def _by_one(op: Op, column: Value, at: Value, rows: Value) -> tuple[Value, Value]:
    """The column of L and D for a single pivot, and what is taken from the rest."""
    pivot = op.Gather(column, at, axis=-2)
    inverse = op.Reciprocal(op.Where(op.Equal(pivot, 0), 1, pivot))
    below = op.Where(op.Greater(rows, at), column, 0)
    factors = op.Mul(below, inverse)
    return op.Where(op.Equal(rows, at), pivot, factors), op.Mul(factors, _transposed(op, below))


def _by_two(
    op: Op, first: Value, second: Value, wanted: Value, at: Value, after: Value, rows: Value
) -> tuple[Value, Value, Value]:
    """Two columns of L and D for a pivot of two rows, and what is taken from the rest."""
    corner = op.Gather(first, after, axis=-2)
    safe = op.Where(wanted, corner, 1)
    last, head = op.Div(op.Gather(second, after, axis=-2), safe), op.Div(op.Gather(first, at, axis=-2), safe)
    determinant = op.Sub(op.Mul(last, head), 1)
    scale = op.Div(op.Reciprocal(op.Where(wanted, determinant, 1)), safe)
    below = op.Greater(rows, after)
    one, other = op.Where(below, first, 0), op.Where(below, second, 0)
    one_factors = op.Mul(op.Sub(op.Mul(last, one), other), scale)
    other_factors = op.Mul(op.Sub(op.Mul(head, other), one), scale)
    update = op.Add(op.Mul(one_factors, _transposed(op, one)), op.Mul(other_factors, _transposed(op, other)))
    here, next_one = op.Equal(rows, at), op.Equal(rows, after)
    one_column = op.Where(op.Or(here, next_one), first, one_factors)
    return one_column, op.Where(next_one, second, other_factors), update


@lowering(aten.linalg_ldl_solve.default)
def linalg_ldl_solve(op: Op, LD: Value, pivots: Value, B: Value, *, hermitian: bool = False) -> Value:
    """linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor

    B is taken through P, L, D, Lᵀ and Pᵀ, a column a turn, as LAPACK's sytrs does.
    """
    if 0 in (*op.sizes(LD), *op.sizes(B)):
        return empty(op, op.out.sizes, B)
    *batch, n, _ = op.out.sizes
    columns = op.out.sizes[-1]
    sizes = [*batch, n, columns]
    rank = len(sizes)
    ld = op.typed(op.Expand(LD, op.shape([*batch, n, n])), [*batch, n, n])
    marks = op.Expand(op.Unsqueeze(op.cast(pivots, INT64), [op.rank(pivots) - 1]), op.shape([*batch, 1, n]))
    start = op.typed(op.Expand(B, op.shape(sizes)), sizes)
    rows = rows_of(op, n)

    def mark(at: Value) -> tuple[Value, Value]:
        """Compute as BOOL where a column belongs to a block of two, and the row with which the block's last one is
        exchanged.
        """
        value = op.Gather(marks, at, axis=-1)
        return op.Less(value, 0), op.Sub(op.Abs(value), 1)

    def forward(turn: Value, states: Values) -> tuple[None, list[Value]]:
        b, opened = states
        at = op.Unsqueeze(turn, [0])
        before = op.Sub(at, 1)
        paired, source = mark(at)
        second, first = op.And(paired, opened), op.And(paired, op.Not(opened))
        moved = _swapped(op, b, op.Where(first, turn, source), turn)
        last, lead = op.Gather(ld, at, axis=-1), op.Gather(ld, before, axis=-1)
        y, y_before = op.Gather(moved, at, axis=-2), op.Gather(moved, before, axis=-2)
        taken = op.Add(op.Mul(last, y), op.Where(second, op.Mul(lead, y_before), 0))
        reduced_rows = op.Where(op.Greater(rows, turn), op.Sub(moved, taken), moved)
        one = op.Div(y, op.Gather(last, at, axis=-2))
        corner = op.Where(second, op.Gather(lead, at, axis=-2), 1)
        head, tail = op.Div(op.Gather(lead, before, axis=-2), corner), op.Div(op.Gather(last, at, axis=-2), corner)
        determinant = op.Where(second, op.Sub(op.Mul(head, tail), 1), 1)
        z, z_before = op.Div(y, corner), op.Div(y_before, corner)
        two = op.Div(op.Sub(op.Mul(head, z), z_before), determinant)
        two_before = op.Div(op.Sub(op.Mul(tail, z_before), z), determinant)
        solved = op.Where(op.Equal(rows, turn), op.Where(second, two, one), reduced_rows)
        solved = op.Where(op.And(second, op.Equal(rows, before)), two_before, solved)
        return None, [op.Where(first, b, solved), first]

    def backward(turn: Value, states: Values) -> tuple[None, list[Value]]:
        b, opened = states
        at = op.Unsqueeze(op.Sub(n - 1, turn), [0])
        before = op.Sub(at, 1)
        paired, source = mark(at)
        done, last_of_two = op.And(paired, opened), op.And(paired, op.Not(opened))
        below = op.Where(op.Greater(rows, at), b, 0)

        def taken(place: Value) -> Value:
            return reduced(op, "ReduceSum", op.Mul(op.Gather(ld, place, axis=-1), below), rank, -2)

        after = op.Where(op.Equal(rows, at), op.Sub(b, taken(at)), b)
        after = op.Where(op.And(last_of_two, op.Equal(rows, before)), op.Sub(b, taken(before)), after)
        moved = _swapped(op, op.typed(after, sizes), source, at)
        return None, [op.Where(done, b, moved), last_of_two]

    closed = op.typed(op.Expand(op.const(False), op.shape([*batch, 1, 1])), [*batch, 1, 1])
    solved, _ = loop(op, n, [start, closed], forward)
    return loop(op, n, [solved, closed], backward)[0]
