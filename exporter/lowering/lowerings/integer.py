"""Divisors and multiples of integers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.loops import any_of, repeat

aten = torch.ops.aten
prims = torch.ops.prims

LONGEST = 100
"""Turns of Euclid's algorithm: two 64-bit integers need 91 at most, as neighbours among Fibonacci's numbers do."""


@lowering(aten.gcd.default, prims.gcd.default)
def gcd(op: Op, x: Value, other: Value) -> Value:
    """gcd(Tensor self, Tensor other) -> Tensor

    Euclid's algorithm on all elements at once, in a Loop that ends with the last of them.
    """

    def step(turn: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        larger, smaller = states
        over = op.Equal(smaller, 0)
        rest = op.Abs(op.Mod(larger, op.Where(over, 1, smaller)))  # below 0 where the divisor is the smallest number
        after = op.Where(over, larger, smaller), op.Where(over, 0, rest)
        return any_of(op, op.Not(op.Equal(after[1], 0))), after

    return repeat(op, LONGEST, (op.Abs(x), op.Abs(other)), step)[0]


@lowering(aten.lcm.default)
def lcm(op: Op, x: Value, other: Value) -> Value:
    """lcm(Tensor self, Tensor other) -> Tensor

    The product without the common divisor; 0 where both are 0.
    """
    divisor = gcd(op, x, other)
    return op.Abs(op.Mul(op.Div(x, op.Where(op.Equal(divisor, 0), 1, divisor)), other))
