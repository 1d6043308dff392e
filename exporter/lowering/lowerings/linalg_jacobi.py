"""Plane rotations of many pairs of columns at once, which the eigenvalue and singular value algorithms share."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lowerings.indices import arange
from fxport.exporter.lowering.lowerings.linalg_matrices import columns_of, reduced, rows_of

SWEEPS = 30
"""Limit of rotations of every pair, as in LAPACK's gesvj; matrices take 5 to 9 sweeps."""


@dataclass(frozen=True, slots=True)
class Tournament:
    """Rounds in which every column meets every other once, each time in disjoint pairs: a round robin.

    In round r the columns i and j meet whose numbers have the sum r modulo the number of rounds, which is odd. A column
    that so meets itself meets the last one where their number is even, and else rests: it is its own partner.
    """

    partners: Value
    """INT64 [rounds, n]."""
    rounds: Value

    @classmethod
    def of(cls, op: Op, n: Size) -> Tournament:
        count = op.const(n, dtype=ir.DataType.INT64)
        last = op.Sub(count, 1)
        rounds = op.Add(last, op.Mod(count, 2))
        turn, column = op.Unsqueeze(op.Range(0, rounds, 1), [1]), arange(op, n)
        other = op.Mod(op.Sub(turn, column), rounds)
        alone = op.Where(op.Equal(rounds, last), last, column)
        half = op.Mod(op.Mul(turn, op.Div(op.Add(rounds, 1), 2)), rounds)
        met = op.Where(op.Equal(column, rounds), half, op.Where(op.Equal(other, column), alone, other))
        return cls(met, rounds)

    def turns(self, op: Op) -> Value:
        """Return the largest number of rounds."""
        return op.Mul(self.rounds, SWEEPS)

    def partner(self, op: Op, turn: Value) -> Value:
        """Whom each column meets, INT64 [n]."""
        return op.Gather(self.partners, op.Mod(turn, self.rounds), axis=0)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Each column i becomes c (xᵢ - t xⱼ), for its partner j; c and t are rows."""

    c: Value
    t: Value
    partner: Value

    def columns(self, op: Op, x: Value) -> Value:
        return op.Mul(self.c, op.Sub(x, op.Mul(self.t, op.Gather(x, self.partner, axis=-1))))

    def rows(self, op: Op, x: Value, rank: int) -> Value:
        order = [*range(rank - 2), rank - 1, rank - 2]
        c, t = op.Transpose(self.c, perm=order), op.Transpose(self.t, perm=order)
        return op.Mul(c, op.Sub(x, op.Mul(t, op.Gather(x, self.partner, axis=-2))))


def rotation(op: Op, a: Value, partner: Value, rank: int, n: Size) -> Rotation:
    """Compute the rotation that makes the elements of a symmetric matrix between partners zero.

    t is the smaller root of t² + 2 τ t = 1, so that the angle is π/4 at most (Golub & Van Loan, algorithm 8.5.1). It
    is that of the first column of a pair for both: were each to take its own, which differs where rounding left the
    matrix not quite symmetric, the rotation would not be orthogonal.
    """
    rows, columns = rows_of(op, n), columns_of(op, n)
    own = reduced(op, "ReduceSum", op.Where(op.Equal(rows, columns), a, 0), rank, -2)
    shared = reduced(op, "ReduceSum", op.Where(op.Equal(rows, partner), a, 0), rank, -2)
    done = op.Or(op.Equal(shared, 0), op.Equal(columns, partner))
    tau = op.Div(op.Sub(op.Gather(own, partner, axis=-1), own), op.Where(done, 1, op.Mul(shared, 2)))
    root = op.Div(op.const(1, like=tau), op.Add(op.Abs(tau), op.Sqrt(op.Add(op.Mul(tau, tau), 1))))
    t = op.Where(done, 0, op.Where(op.Less(tau, 0), op.Neg(root), root))
    t = op.Where(op.Less(columns, partner), t, op.Neg(op.Gather(t, partner, axis=-1)))
    c = op.Div(op.const(1, like=t), op.Sqrt(op.Add(op.Mul(t, t), 1)))
    return Rotation(c, t, partner)
