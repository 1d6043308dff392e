"""Schur forms of complex matrices, and of real ones as a case of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lowerings.complex_pairs import (
    Pair,
    choose,
    conjugate,
    gathered,
    inner,
    largest_part,
    minus,
    plus,
    product,
    quotient,
    scaled,
    square_root,
    times,
)
from fxport.exporter.lowering.lowerings.linalg_complex import reflection
from fxport.exporter.lowering.lowerings.linalg_matrices import EPSILON, columns_of, larger, reduced, rows_of, triangle
from fxport.exporter.lowering.lowerings.loops import any_of, loop
from fxport.exporter.lowering.lowerings.shape import expanded

INT64, DOUBLE = ir.DataType.INT64, ir.DataType.DOUBLE
EPS = EPSILON[DOUBLE]


@dataclass(frozen=True, slots=True)
class Block:
    """The diagonal block of each matrix at work: its first and last row, [..., 1, 1]; -1 where no block is left."""

    first: Value
    last: Value


class Schur:
    """A = Q T Qᴴ with T upper triangular and Q unitary, for a batch of [..., n, n] whose largest element is 1.

    Hessenberg form by reflections, then Francis' steps with two shifts on the last block of three rows or more, until
    all blocks have one row or two; those of two are split directly (Golub & Van Loan, Matrix Computations, sections
    7.4.2, 7.5.5 and 7.5.6). What is eps of its neighbours on the diagonal counts as 0. T is exact for a matrix that
    differs by p(n) eps ‖A‖, with a modest p. All is real for a real matrix, until pairs are split. A matrix that is
    not done after 30 n steps, of which every tenth without success takes other shifts, becomes NaN.
    """

    def __init__(self, op: Op, batch: Sequence[Size], n: Size) -> None:
        self.op, self.batch, self.n, self.rank = op, [*batch], n, len(batch) + 2
        self.rows, self.columns = rows_of(op, n), columns_of(op, n)
        self.on = op.Equal(self.rows, self.columns)
        self.under = op.Equal(self.rows, op.Add(self.columns, 1))
        zero = op.const(0, dtype=DOUBLE)
        self.zero = Pair(zero, zero)

    def form(self, a: Pair, start: Pair | None) -> tuple[Pair, Pair | None]:
        """T, and Q if it is to start with an identity."""
        op, inside = self.op, larger(self.n - 1, 0)
        given = [*a.parts, *(start.parts if start is not None else ())]
        held = self._upper(loop(op, larger(self.n - 2, 0), given, self._to_hessenberg), -1)
        none = expanded(op, op.const(-1, dtype=INT64), [*self.batch, 1, 1])
        *held, last, _ = loop(op, 30 * self.n, [*held, none, none], self._francis)
        held = self._upper(loop(op, inside, held, self._split), 0)
        failed = op.GreaterOrEqual(last, 0)
        t = Pair(op.Where(failed, math.nan, held[0]), held[1]).sized(op, op.sizes(a.re))
        return t, Pair(*held[2:]) if start is not None else None

    def _upper(self, states: Values, k: int) -> list[Value]:
        """T without what rounding left below the k-th diagonal."""
        return [*(triangle(self.op, part, upper=True, k=k) for part in states[:2]), *states[2:]]

    def _reflected(self, states: Values, x: Pair, at: Value) -> list[Value]:
        """Hᴴ T H and Q H, of the reflection H that makes a column x 0 but for its element `at`; none where x is 0."""
        op, rank, here = self.op, self.rank, self.op.Equal(self.rows, at)
        x = scaled(op, x, op.Reciprocal(largest_part(op, x, rank)))
        head = self.element(x, here)
        v, tau, _ = reflection(op, head, choose(op, here, self.zero, x), here, rank)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        row = conjugate(
            op, Pair(*(op.Transpose(part, perm=swapped) for part in times(op, v, conjugate(op, tau)).parts))
        )
        t = Pair(*states[:2])
        t = minus(op, t, times(op, times(op, v, conjugate(op, tau)), inner(op, v, t, rank)))
        turned = [t, *([Pair(*states[2:])] if states[2:] else [])]
        done = [minus(op, each, times(op, product(op, each, v), row)) for each in turned]
        return [op.typed(part, [*self.batch, self.n, self.n]) for each in done for part in each.parts]

    def element(self, column: Pair, here: Value) -> Pair:
        return Pair(
            *(reduced(self.op, "ReduceSum", self.op.Where(here, part, 0), self.rank, -2) for part in column.parts)
        )

    def _column(self, t: Pair, at: Value) -> Pair:
        here = self.op.Equal(self.columns, at)
        return Pair(*(reduced(self.op, "ReduceSum", self.op.Where(here, part, 0), self.rank, -1) for part in t.parts))

    def _to_hessenberg(self, turn: Value, states: Values) -> tuple[None, list[Value]]:
        op = self.op
        column = gathered(op, Pair(*states[:2]), op.Unsqueeze(turn, [0]), -1)
        x = choose(op, op.Greater(self.rows, turn), column, self.zero)
        return None, self._reflected(states, x, op.Add(turn, 1))

    def _francis(self, turn: Value, states: Values) -> tuple[Value, list[Value]]:
        """One step of all matrices that are not done."""
        op = self.op
        *held, before, tries = states
        t, block = self._deflated(Pair(*held[:2]))
        tries = op.Where(op.Equal(block.last, before), op.Add(tries, 1), 0)
        x = self._first_column(t, block, op.And(op.Equal(op.Mod(tries, 10), 0), op.Greater(tries, 0)))

        def chase(turn: Value, states: Values) -> tuple[None, list[Value]]:
            previous = op.Max(op.Sub(turn, 1), op.const(0, dtype=INT64))
            column = gathered(op, Pair(*states[:2]), op.Unsqueeze(previous, [0]), -1)
            column = choose(op, op.Equal(block.first, turn), x, column)
            near = op.And(op.GreaterOrEqual(self.rows, turn), op.LessOrEqual(self.rows, op.Add(turn, 2)))
            inside = op.And(op.LessOrEqual(block.first, turn), op.Greater(block.last, turn))
            inside = op.And(op.And(near, inside), op.LessOrEqual(self.rows, block.last))
            return None, self._reflected(states, choose(op, inside, column, self.zero), turn)

        swept = self._upper(loop(op, larger(self.n - 1, 0), [*t.parts, *held[2:]], chase), -1)
        sizes = [*self.batch, 1, 1]
        going = any_of(op, op.GreaterOrEqual(block.last, 0))
        return going, [*swept, op.typed(block.last, sizes), op.typed(tries, sizes)]

    def _deflated(self, t: Pair) -> tuple[Pair, Block]:
        """T with zeros for what is negligible below the diagonal, and its last block of three rows or more."""
        op, rank = self.op, self.rank
        size = op.Add(op.Abs(t.re), op.Abs(t.im))
        on = op.Where(self.on, size, 0)
        neighbours = op.Add(reduced(op, "ReduceSum", on, rank, -1), reduced(op, "ReduceSum", on, rank, -2))
        limit = op.Mul(op.Where(op.Equal(neighbours, 0), 1, neighbours), EPS)
        kept = op.And(self.under, op.Greater(size, limit))
        t = choose(op, op.And(self.under, op.Not(kept)), self.zero, t).sized(op, [*self.batch, self.n, self.n])
        kept = op.Cast(kept, to=INT64)
        joined = op.Cast(reduced(op, "ReduceMax", kept, rank, -1), to=ir.DataType.BOOL)
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        onward = op.Cast(op.Transpose(reduced(op, "ReduceMax", kept, rank, -2), perm=swapped), to=ir.DataType.BOOL)
        last = reduced(op, "ReduceMax", op.Where(op.And(joined, onward), op.Add(self.rows, 1), -1), rank, -2)
        starts = op.And(op.Not(joined), op.LessOrEqual(self.rows, last))
        first = reduced(op, "ReduceMax", op.Where(starts, self.rows, -1), rank, -2)
        return t, Block(first, last)

    def _first_column(self, t: Pair, block: Block, other: Value) -> Pair:
        """Of (T - σ I)(T - τ I), in the rows of the block.

        The shifts are the conjugate eigenvalues of the block's last two rows, or twice the one nearer to the last
        element. Where `other`, those of a matrix as large as the element below the diagonal take their place.
        """
        op = self.op
        above, below = op.Equal(self.rows, op.Sub(block.last, 1)), op.Equal(self.rows, block.last)
        left, right = self._column(t, op.Sub(block.last, 1)), self._column(t, block.last)
        a, b = self.element(left, above), self.element(right, above)
        c, d = self.element(left, below), self.element(right, below)
        size = Pair(op.Add(op.Abs(c.re), op.Abs(c.im)), self.zero.im)
        moved = plus(op, d, scaled(op, size, op.const(0.75, dtype=DOUBLE)))
        a, b = choose(op, other, moved, a), choose(op, other, scaled(op, size, op.const(-0.4375, dtype=DOUBLE)), b)
        c, d = choose(op, other, size, c), choose(op, other, moved, d)
        far, near, pair, _ = _eigenvalues(op, a, b, c, d)
        one = choose(op, pair, far, near)
        start = op.Equal(self.rows, block.first)
        x = minus(op, self._column(t, block.first), choose(op, start, one, self.zero))
        x = minus(op, product(op, t, x), times(op, x, near))
        x = Pair(x.re, op.Where(pair, 0, x.im))  # but for rounding
        inside = op.And(op.GreaterOrEqual(self.rows, block.first), op.LessOrEqual(self.rows, block.last))
        return choose(op, inside, x, self.zero)

    def _split(self, turn: Value, states: Values) -> tuple[None, list[Value]]:
        """A block of two rows made triangular by a vector of the eigenvalue that is farther from its last element."""
        op, t = self.op, Pair(*states[:2])
        this, following = op.Unsqueeze(turn, [0]), op.Unsqueeze(op.Add(turn, 1), [0])
        left, right = gathered(op, t, this, -1), gathered(op, t, following, -1)
        a, b = gathered(op, left, this, -2), gathered(op, right, this, -2)
        c, d = gathered(op, left, following, -2), gathered(op, right, following, -2)
        whole = op.Not(op.Equal(op.Add(op.Abs(c.re), op.Abs(c.im)), 0))
        lower = choose(op, op.Equal(self.rows, following), c, self.zero)
        far, near, _, z = _eigenvalues(op, a, b, c, d)
        x = choose(op, op.Equal(self.rows, turn), z, lower)
        after = self._reflected(states, choose(op, whole, x, self.zero), turn)
        own, other = (op.And(op.And(self.on, whole), op.Equal(self.rows, at)) for at in (turn, following))
        t = choose(op, own, far, choose(op, other, near, Pair(*after[:2])))
        return None, [*t.sized(op, [*self.batch, self.n, self.n]).parts, *after[2:]]


def _eigenvalues(op: Op, a: Pair, b: Pair, c: Pair, d: Pair) -> tuple[Pair, Pair, Value, Pair]:
    """Of [a b; c d] the one farther from d, the nearer one, whether they are a pair of a real matrix, and farther - d.

    Of a pair, the one with im > 0 counts as farther; the other is its exact conjugate.
    """
    half = scaled(op, minus(op, a, d), op.const(0.5, dtype=DOUBLE))
    beside = times(op, b, c)
    root = square_root(op, plus(op, times(op, half, half), beside))
    along = op.Add(op.Mul(half.re, root.re), op.Mul(half.im, root.im))
    z = choose(op, op.Less(along, 0), minus(op, half, root), plus(op, half, root))
    far, near = plus(op, d, z), minus(op, d, quotient(op, beside, z))
    real = op.Equal(op.Add(op.Add(op.Abs(a.im), op.Abs(d.im)), op.Abs(beside.im)), 0)
    pair = op.And(real, op.Not(op.Equal(z.im, 0)))
    return far, choose(op, pair, conjugate(op, far), near), pair, z
