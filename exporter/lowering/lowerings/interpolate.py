"""Resampling of an axis: the source of its new places in the old ones, as indices or as a matrix of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import sympy

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.windows import contracted

FLOAT, DOUBLE, INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis whose `size` places become `count`.

    `factor`: the scale factor that was asked for, if one was; it stands for `count / size`, from which it differs where
    `count` was rounded. `corners`: the first and the last place stay where they are. `keeps`: PyTorch takes an axis
    whose size does not change as it is, whatever the factor.
    """

    size: Size
    count: Size
    factor: float | None = None
    corners: bool = False
    keeps: bool = False

    @property
    def is_same(self) -> bool:
        return self.size == self.count and (self.keeps or self.factor is None)

    @property
    def scale(self) -> float | None:
        """The factor as ONNX's Resize takes it, a float32; None where ONNX Runtime might come to another size by it."""
        wanted = 1.0 if self.is_same else self.factor if self.factor is not None else self._quotient
        if wanted is None:
            return None
        single = np.float32(wanted)
        if is_symbolic(self.size) or is_symbolic(self.count):
            might_keep = self.keeps and 1 < wanted < SMALLEST_GROWTH
            return wanted if float(single) == wanted and not might_keep else None
        sizes = {int(single * np.float32(self.size)), int(float(single) * self.size)}  # the runtime's, the checker's
        return wanted if sizes == {self.count} else None

    @property
    def _quotient(self) -> float | None:
        if self.size == 0:
            return None
        known = sympy.sympify(self.count) / self.size
        return float(known) if known.is_number else None

    @property
    def is_whole(self) -> bool:
        """True if the requested factor leads to a size without rounding."""
        whole = not is_symbolic(self.size) and self.factor is not None and self.factor * self.size == self.count
        return self.factor is None or self.is_same or whole

    @property
    def is_repetition(self) -> bool:
        """True if each place is repeated an integer number of times."""
        return self.scale is not None and self.scale >= 1 and self.scale.is_integer()


SMALLEST_GROWTH = 1.5
"""From this factor on only an axis of a single place keeps its size."""


def step(op: Op, axis: Axis, dtype: ir.DataType) -> Value:
    """Compute the distance of new places on the old axis, as PyTorch computes it in this dtype."""
    if axis.is_same or (axis.corners and axis.count == 1):
        return op.const(1.0 if axis.is_same else 0.0, dtype=dtype)
    if axis.corners:
        gaps = op.const(axis.count - 1, dtype=dtype)
        apart = op.Div(op.const(axis.size - 1, dtype=dtype), gaps)
        return op.Where(op.Greater(gaps, 0.0), apart, 0.0) if is_symbolic(axis.count) else apart
    if axis.factor is None:
        return op.Div(op.const(axis.size, dtype=dtype), op.const(axis.count, dtype=dtype))
    apart = op.const(1.0 / axis.factor, dtype=dtype)
    if axis.keeps and is_symbolic(axis.size):
        return op.Where(op.Equal(op.const(axis.count), op.const(axis.size)), 1.0, apart)
    return apart


def _numbers(op: Op, count: Size, dtype: ir.DataType) -> Value:
    return op.cast(op.Range(0, op.const(count), 1), dtype)


def nearest_indices(op: Op, axis: Axis, exact: bool) -> Value:
    """The old place of each new one: ⌊i · step⌋, or with `exact` ⌊(i + ½) · step⌋; in float32, as PyTorch has it.

    Where PyTorch keeps an axis whatever the factor, it doubles one whatever the factor, too.
    """
    apart = step(op, axis, FLOAT)
    if axis.keeps and axis.factor is not None:
        apart = op.Where(op.Equal(op.const(axis.count), op.const(2 * axis.size)), 0.5, apart)
    new = _numbers(op, axis.count, FLOAT)
    place = op.Floor(op.Mul(op.Add(new, 0.5) if exact else new, apart))
    return op.Min(op.cast(place, INT64), op.const(axis.size - 1))


Filter = Callable[[Op, Value], Value]


def triangle(op: Op, distance: Value) -> Value:
    """1 - |d| for |d| < 1."""
    return op.Max(op.Sub(1.0, op.Abs(distance)), op.const(0.0, like=distance))


def cubic(a: float) -> Filter:
    """Keys' cubic convolution, 4 places wide; IEEE Trans. ASSP 29 (1981)."""

    def weight(op: Op, distance: Value) -> Value:
        d = op.Abs(distance)
        near = op.Add(op.Mul(op.Mul(op.Sub(op.Mul(d, a + 2.0), a + 3.0), d), d), 1.0)
        far = op.Mul(op.Sub(op.Mul(op.Add(op.Mul(op.Sub(d, 5.0), d), 8.0), d), 4.0), a)
        return op.Where(op.Less(d, 1.0), near, op.Where(op.Less(d, 2.0), far, op.const(0.0, like=d)))

    return weight


CUBIC, CUBIC_ANTIALIASED = -0.75, -0.5
"""The coefficient of the cubic filter; PyTorch has Pillow's for antialiasing."""

FILTERS: Mapping[tuple[str, bool], Filter] = {
    ("linear", False): triangle,
    ("linear", True): triangle,
    ("cubic", False): cubic(CUBIC),
    ("cubic", True): cubic(CUBIC_ANTIALIASED),
}
"""By interpolation mode and whether it is antialiased."""


def resampled(op: Op, x: Value, position: int, axis: Axis, mode: str, antialias: bool) -> Value:
    """`x` with the axis at a position, counted from the end, interpolated: by a product with a matrix of weights, or
    between two places each, where no other one has to be finite."""
    dtype = DOUBLE if x.dtype == DOUBLE else FLOAT
    if mode == "linear" and not antialias:
        return _between(op, x, position, axis, _inside(op, axis, _places(op, axis, dtype)))
    return contracted(op, x, _weights(op, axis, mode, antialias, dtype), position)


def resampled_bytes(op: Op, x: Value, position: int, axis: Axis, mode: str, antialias: bool) -> Value:
    """`x`, bytes as DOUBLE, with the axis at a position, counted from the end, interpolated as PyTorch does it on the
    CPU (aten/src/ATen/native/cpu/UpSampleKernel.cpp): by weights of 16 bits, with as many of them behind the point as
    the largest one leaves, and a sum that is rounded half up. All numbers are whole and below 2**53.
    """
    weights = _weights(op, axis, mode, antialias, DOUBLE)
    largest = op.ReduceMax(weights, keepdims=0)
    scales = op.const([2.0**bits for bits in range(23)], dtype=DOUBLE)
    fits = op.Less(op.Floor(op.Add(op.Mul(scales, largest), 0.5)), 2.0**15)
    scale = op.ReduceMax(op.Where(fits, scales, op.const(1.0, dtype=DOUBLE)), keepdims=0)
    whole = op.Mul(op.Sign(weights), op.Floor(op.Add(op.Abs(op.Mul(weights, scale)), 0.5)))
    total = contracted(op, x, op.typed(whole, [axis.count, axis.size]), position)
    return op.typed(op.Clip(op.Floor(op.Add(op.Div(total, scale), 0.5)), 0.0, 255.0), op.sizes(total))


def _places(op: Op, axis: Axis, dtype: ir.DataType) -> Value:
    """The place of each new element on the old axis."""
    apart, new = step(op, axis, dtype), _numbers(op, axis.count, dtype)
    return op.Mul(new, apart) if axis.corners else op.Sub(op.Mul(op.Add(new, 0.5), apart), 0.5)


def _inside(op: Op, axis: Axis, place: Value) -> Value:
    return op.Min(op.Max(place, op.const(0.0, like=place)), op.const(axis.size - 1, like=place))


def _weights(op: Op, axis: Axis, mode: str, antialias: bool, dtype: ir.DataType) -> Value:
    """The share of each old place, a column, in each new one, a row."""
    weight = FILTERS[mode, antialias]
    sizes = [axis.count, axis.size]
    if antialias:
        apart = step(op, axis, dtype)
        wide = op.Max(apart, op.const(1.0, dtype=dtype))
        old = op.Add(_numbers(op, axis.size, dtype), 0.5)
        center = op.Unsqueeze(op.Mul(op.Add(_numbers(op, axis.count, dtype), 0.5), apart), [1])
        raw = weight(op, op.Div(op.Sub(old, center), wide))
        return op.typed(op.Div(raw, op.ReduceSum(raw, [1])), sizes)
    place = _places(op, axis, dtype)
    if mode == "linear":
        place = op.Unsqueeze(_inside(op, axis, place), [1])
        return op.typed(weight(op, op.Sub(place, _numbers(op, axis.size, dtype))), sizes)
    wider = op.Sub(_numbers(op, axis.size + 4, dtype), 2.0)
    shares = weight(op, op.Sub(op.Unsqueeze(place, [1]), wider))
    at = op.Unsqueeze(_inside(op, axis, wider), [1])  # the first and the last element stand for what is beyond
    return op.typed(op.MatMul(shares, op.const(op.Equal(at, _numbers(op, axis.size, dtype)), dtype=dtype)), sizes)


def _between(op: Op, x: Value, position: int, axis: Axis, place: Value) -> Value:
    """The values at places between two old ones, each with its share."""
    sizes = [*op.sizes(x)]
    sizes[position] = axis.count
    low = op.Floor(place)
    first = op.cast(low, INT64)
    second = op.Min(op.Add(first, 1), op.const(axis.size - 1))
    share = op.Sub(place, low)
    across = list(range(1, -position))
    share = op.Unsqueeze(share, across) if across else share
    before, after = (op.Gather(x, each, axis=position % len(sizes)) for each in (first, second))
    return op.typed(op.Add(op.Mul(before, op.Sub(1.0, share)), op.Mul(after, share)), sizes)
