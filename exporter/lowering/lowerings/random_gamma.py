"""Random numbers that are tried until they fit: gamma, Dirichlet, Poisson and binomial ones.

All elements are tried at once, in a loop that ends when each has been accepted once; computed in DOUBLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.gamma import lgamma_of_positive
from fxport.exporter.lowering.lowerings.loops import any_of, loop
from fxport.exporter.lowering.lowerings.random_bits import normal01, uniform01

aten = torch.ops.aten

DOUBLE = ir.DataType.DOUBLE

TURNS = 2**31 - 1
"""More than are ever taken."""

FEW = 10.0
"""Below this mean events are counted one by one, above it their number is tried from a curve over its distribution."""

Draw = Callable[[], tuple[Value, Value]]
"""Function that draws a candidate for each element, with a BOOL of those to accept."""


def until_accepted(op: Op, x: Value, draw: Draw, needed: Value | None = None) -> Value:
    """For each element of `x` the first draw that is accepted; 0 where none is `needed`."""
    sizes = op.sizes(x)
    waiting = op.Less(op.Mul(x, 0.0), 1.0) if needed is None else needed
    start = op.typed(op.Expand(op.const(0.0, dtype=DOUBLE), op.shape(sizes)), sizes)

    def step(turn: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        found, left = states
        tried, accepted = draw()
        after = op.And(left, op.Not(accepted))
        return any_of(op, after), [op.Where(op.And(left, accepted), tried, found), after]

    return loop(op, TURNS, [start, op.typed(waiting, sizes)], step)[0]


def _uniform(op: Op, x: Value) -> Value:
    """In (0, 1]: its logarithm is finite."""
    return op.Sub(1.0, uniform01(op, op.sizes(x), DOUBLE))


@lowering(aten._standard_gamma.default)
def standard_gamma(op: Op, x: Value) -> Value:
    """_standard_gamma(Tensor self, Generator? generator=None) -> Tensor"""
    drawn = gamma(op, op.cast(x, DOUBLE))
    return op.Max(op.cast(drawn, op.out.dtype), _smallest(op.out.dtype))


def gamma(op: Op, shape: Value) -> Value:
    """Gamma distributed, scale 1 (Marsaglia and Tsang, 2000). A shape below 1 is drawn by one that is larger by 1."""
    sizes = op.sizes(shape)
    small = op.Less(shape, 1.0)
    d = op.Sub(op.Where(small, op.Add(shape, 1.0), shape), 1.0 / 3.0)
    c = op.Reciprocal(op.Sqrt(op.Mul(d, 9.0)))

    def draw() -> tuple[Value, Value]:
        x = normal01(op, sizes, DOUBLE)
        root = op.Add(op.Mul(x, c), 1.0)
        v = op.Mul(root, op.Mul(root, root))
        positive = op.Greater(root, 0.0)
        log_v = op.Log(op.Where(positive, v, 1.0))
        bound = op.Add(op.Mul(op.Mul(x, x), 0.5), op.Mul(d, op.Add(op.Sub(1.0, v), log_v)))
        return op.Mul(d, v), op.And(positive, op.Less(op.Log(_uniform(op, shape)), bound))

    drawn = until_accepted(op, shape, draw)
    less = op.Pow(_uniform(op, shape), op.Reciprocal(shape))
    return op.typed(op.Where(small, op.Mul(drawn, less), drawn), sizes)


@lowering(aten._sample_dirichlet.default)
def sample_dirichlet(op: Op, x: Value) -> Value:
    """_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor

    Gamma distributed numbers by their sum.
    """
    drawn = op.Max(gamma(op, op.cast(x, DOUBLE)), _smallest(DOUBLE))
    return op.cast(op.Div(drawn, op.ReduceSum(drawn, [-1])), op.out.dtype)


def _smallest(dtype: ir.DataType) -> float:
    """The smallest normal number: PyTorch draws no 0 either."""
    return float(torch.finfo(_TORCH[dtype]).tiny)


_TORCH = {
    ir.DataType.FLOAT: torch.float32,
    DOUBLE: torch.float64,
    ir.DataType.FLOAT16: torch.float16,
    ir.DataType.BFLOAT16: torch.bfloat16,
}


@lowering(aten.poisson.default)
def poisson(op: Op, x: Value) -> Value:
    """poisson(Tensor self, Generator? generator=None) -> Tensor"""
    mean = op.typed(op.cast(x, DOUBLE), op.sizes(x))
    many = op.GreaterOrEqual(mean, FEW)
    counted = events(op, op.Where(many, 0.0, mean), lambda: op.Neg(op.Log(_uniform(op, mean))), mean)
    tried = _tried_poisson(op, op.typed(op.Where(many, mean, FEW), op.sizes(x)), many)
    return op.cast(op.Where(many, tried, counted), op.out.dtype)


def events(op: Op, duration: Value, gap: Callable[[], Value], like: Value) -> Value:
    """Count the events in a time, with random gaps between them; `like` has the sizes."""
    sizes = op.sizes(like)
    zeros = op.typed(op.Expand(op.const(0.0, dtype=DOUBLE), op.shape(sizes)), sizes)

    def step(turn: Value, states: Sequence[Value]) -> tuple[Value, list[Value]]:
        time, count = states
        later = op.Add(time, gap())
        before = op.LessOrEqual(later, duration)
        return any_of(op, before), [later, op.Add(count, op.Cast(before, to=DOUBLE))]

    return loop(op, TURNS, [zeros, zeros], step)[1]


def _tried_poisson(op: Op, mean: Value, needed: Value) -> Value:
    """Transformed rejection with squeeze, for means from 10 on (Hörmann, 1993: PTRS)."""
    b = op.Add(op.Mul(op.Sqrt(mean), 2.53), 0.931)
    a = op.Add(op.Mul(b, 0.02483), -0.059)
    inverse_alpha = op.Add(op.Div(1.1328, op.Sub(b, 3.4)), 1.1239)
    squeeze = op.Sub(0.9277, op.Div(3.6224, op.Sub(b, 2.0)))
    log_mean = op.Log(mean)

    def log_mass(k: Value) -> Value:
        return op.Sub(op.Sub(op.Mul(k, log_mean), mean), lgamma_of_positive(op, op.Add(k, 1.0)))

    return _transformed(op, mean, needed, a, b, op.Add(mean, 0.43), inverse_alpha, squeeze, None, log_mass)


@lowering(aten.binomial.default)
def binomial(op: Op, count: Value, prob: Value) -> Value:
    """binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor

    Of the rarer of success and failure.
    """
    sizes = op.out.sizes
    n = op.typed(op.Expand(op.cast(count, DOUBLE), op.shape(sizes)), sizes)
    p = op.typed(op.Expand(op.cast(prob, DOUBLE), op.shape(sizes)), sizes)
    common = op.Greater(p, 0.5)
    rare = op.typed(op.Where(common, op.Sub(1.0, p), p), sizes)
    many = op.GreaterOrEqual(op.Mul(n, rare), FEW)
    log_miss = op.Log(op.Sub(1.0, rare))

    def gap() -> Value:
        """Trials until the next success; endless where there is none."""
        tries = op.Max(op.Ceil(op.Div(op.Log(_uniform(op, n)), op.Where(op.Less(log_miss, 0.0), log_miss, -1.0))), 1.0)
        return op.Where(op.Less(log_miss, 0.0), tries, np.inf)

    counted = events(op, op.Where(many, -1.0, n), gap, n)
    safe_n, safe_p = op.Where(many, n, 4 * FEW), op.Where(many, rare, 0.5)
    tried = _tried_binomial(op, op.typed(safe_n, sizes), safe_p, many)
    hits = op.Where(many, tried, counted)
    return op.cast(op.Where(common, op.Sub(n, hits), hits), op.out.dtype)


def _tried_binomial(op: Op, n: Value, p: Value, needed: Value) -> Value:
    """Transformed rejection with squeeze, for p ≤ 1/2 and means from 10 on (Hörmann, 1993: BTRS)."""
    odds = op.Div(p, op.Sub(1.0, p))
    spread = op.Sqrt(op.Mul(op.Mul(n, p), op.Sub(1.0, p)))
    b = op.Add(op.Mul(spread, 2.53), 1.15)
    a = op.Add(op.Add(op.Mul(b, 0.0248), op.Mul(p, 0.01)), -0.0873)
    alpha = op.Mul(op.Add(op.Div(5.1, b), 2.83), spread)
    squeeze = op.Sub(0.92, op.Div(4.2, b))
    mode = op.Floor(op.Mul(op.Add(n, 1.0), p))
    log_odds = op.Log(odds)

    def ways(k: Value) -> Value:
        return op.Add(lgamma_of_positive(op, op.Add(k, 1.0)), lgamma_of_positive(op, op.Add(op.Sub(n, k), 1.0)))

    def log_mass(k: Value) -> Value:
        """Relative to that of the mode."""
        return op.Add(op.Sub(ways(mode), ways(k)), op.Mul(op.Sub(k, mode), log_odds))

    return _transformed(op, n, needed, a, b, op.Add(op.Mul(n, p), 0.5), alpha, squeeze, n, log_mass)


def _transformed(
    op: Op,
    like: Value,
    needed: Value,
    a: Value,
    b: Value,
    centre: Value,
    alpha: Value,
    squeeze: Value,
    largest: Value | None,
    log_mass: Callable[[Value], Value],
) -> Value:
    """Whole numbers by rejection under a transformed curve; most are accepted by the squeeze, without `log_mass`."""

    def draw() -> tuple[Value, Value]:
        u, v = op.Sub(_uniform(op, like), 0.5), _uniform(op, like)
        width = op.Sub(0.5, op.Abs(u))
        flat = op.Equal(width, 0.0)
        safe = op.Where(flat, 1.0, width)
        k = op.Floor(op.Add(op.Mul(op.Add(op.Div(op.Mul(a, 2.0), safe), b), u), centre))
        inside = op.And(op.GreaterOrEqual(k, 0.0), op.Not(flat))
        inside = inside if largest is None else op.And(inside, op.LessOrEqual(k, largest))
        quick = op.And(op.GreaterOrEqual(width, 0.07), op.LessOrEqual(v, squeeze))
        under = op.Div(op.Mul(v, alpha), op.Add(op.Div(a, op.Mul(safe, safe)), b))
        exact = op.LessOrEqual(op.Log(under), log_mass(op.Where(inside, k, centre)))
        return k, op.And(inside, op.Or(quick, exact))

    return until_accepted(op, like, draw, needed)
