"""Complex matrices as two real ones, inside lowerings: their arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lowerings.linalg_matrices import flipped, reduced


@dataclass(frozen=True, slots=True)
class Pair:
    """Real and imaginary parts of the same sizes."""

    re: Value
    im: Value

    @staticmethod
    def of(op: Op, packed: Value) -> Pair:
        """From a tensor with a last axis of 2."""
        sizes = op.sizes(packed)[:-1]
        return Pair(*(op.typed(op.Gather(packed, at, axis=len(sizes)), sizes) for at in (0, 1)))

    def packed(self, op: Op, sizes: Sequence[Size]) -> Value:
        """As one tensor with a last axis of 2; `sizes` are those of the parts."""
        axis = [len(sizes)]
        parts = [op.Unsqueeze(part, axis) for part in (self.re, self.im)]
        return op.typed(op.Concat(*parts, axis=len(sizes)), [*sizes, 2])

    @property
    def parts(self) -> Values:
        return self.re, self.im

    def sized(self, op: Op, sizes: Sequence[Size]) -> Pair:
        return Pair(*(op.typed(part, sizes) for part in self.parts))


def plus(op: Op, a: Pair, b: Pair) -> Pair:
    return Pair(op.Add(a.re, b.re), op.Add(a.im, b.im))


def minus(op: Op, a: Pair, b: Pair) -> Pair:
    return Pair(op.Sub(a.re, b.re), op.Sub(a.im, b.im))


def times(op: Op, a: Pair, b: Pair) -> Pair:
    return Pair(
        op.Sub(op.Mul(a.re, b.re), op.Mul(a.im, b.im)),
        op.Add(op.Mul(a.re, b.im), op.Mul(a.im, b.re)),
    )


def product(op: Op, a: Pair, b: Pair) -> Pair:
    """Of matrices."""
    return Pair(
        op.Sub(op.MatMul(a.re, b.re), op.MatMul(a.im, b.im)),
        op.Add(op.MatMul(a.re, b.im), op.MatMul(a.im, b.re)),
    )


def scaled(op: Op, a: Pair, factor: Value) -> Pair:
    return Pair(op.Mul(a.re, factor), op.Mul(a.im, factor))


def conjugate(op: Op, a: Pair) -> Pair:
    return Pair(a.re, op.Neg(a.im))


def quotient(op: Op, a: Pair, b: Pair) -> Pair:
    """By the larger part of the divisor, so that no square over- or underflows; by 0 it is `a`."""
    size = op.Max(op.Abs(b.re), op.Abs(b.im))
    nought = op.Equal(size, 0)
    size = op.Where(nought, 1, size)
    re, im = op.Where(nought, 1, op.Div(b.re, size)), op.Div(b.im, size)
    length = op.Mul(op.Add(op.Mul(re, re), op.Mul(im, im)), size)
    found = times(op, a, Pair(re, op.Neg(im)))
    return Pair(op.Div(found.re, length), op.Div(found.im, length))


def square_root(op: Op, a: Pair) -> Pair:
    """The root with re >= 0, and im >= 0 where re is 0."""
    length = op.Sqrt(op.Add(op.Mul(a.re, a.re), op.Mul(a.im, a.im)))
    larger = op.Sqrt(op.Mul(op.Add(length, op.Abs(a.re)), op.const(0.5, like=length)))
    other = op.Div(op.Abs(a.im), op.Mul(op.Where(op.Equal(larger, 0), 1, larger), 2))
    right = op.GreaterOrEqual(a.re, 0)
    im = op.Where(right, other, larger)
    return Pair(op.Where(right, larger, other), op.Where(op.Less(a.im, 0), op.Neg(im), im))


def choose(op: Op, condition: Value, a: Pair, b: Pair) -> Pair:
    return Pair(op.Where(condition, a.re, b.re), op.Where(condition, a.im, b.im))


def gathered(op: Op, a: Pair, at: Value, axis: int) -> Pair:
    return Pair(op.Gather(a.re, at, axis=axis), op.Gather(a.im, at, axis=axis))


def inner(op: Op, v: Pair, a: Pair, rank: int) -> Pair:
    """vᴴ A as a row, of a column v."""
    product = times(op, conjugate(op, v), a)
    return Pair(*(reduced(op, "ReduceSum", part, rank, -2) for part in product.parts))


def adjoint(op: Op, a: Pair) -> Pair:
    """The conjugate transposes."""
    re, im = flipped(op, a.re), flipped(op, a.im)
    return Pair(re, op.typed(op.Neg(im), op.sizes(im)))


def largest_part(op: Op, a: Pair, rank: int) -> Value:
    """The largest part of an element of each matrix, [..., 1, 1]; 1 where all are 0."""
    size = op.Max(op.Abs(a.re), op.Abs(a.im))
    largest = reduced(op, "ReduceMax", reduced(op, "ReduceMax", size, rank, -1), rank, -2)
    return op.Where(op.Equal(largest, 0), 1, largest)
