"""Regions of interest by parts: places and weights along each axis, and what is gathered there."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import lowest
from fxport.exporter.lowering.lower.symbols import Size

INT64 = ir.DataType.INT64
BINS_AND_TAPS = 5
"""Axes of [regions, bins down, bins across, taps down, taps across]."""


@dataclass(frozen=True, slots=True)
class Side:
    """One axis of K regions, cut into `bins`, on an image of `size`; `start` and `length` are [K, 1, 1]."""

    start: Value
    length: Value
    bins: int
    size: Size


@dataclass(frozen=True, slots=True)
class Taps:
    """Places on an axis, INT64, and a weight for each: [K, bins, taps]."""

    place: Value
    weight: Value


def column(op: Op, rois: Value, index: int) -> Value:
    """One of the five numbers of each region: [K, 1, 1]."""
    return op.Unsqueeze(op.Gather(rois, index, axis=1), [1, 2])


def images(op: Op, x: Value, rois: Value) -> tuple[Value, Value]:
    """The images as rows of channels, [N·H·W, C], and where the image of each region begins: [K, 1, 1, 1, 1]."""
    _, channels, height, width = op.sizes(x)
    rows = op.Reshape(op.Transpose(x, perm=[0, 2, 3, 1]), op.shape([-1, channels]))
    image = op.cast(op.Gather(rois, 0, axis=1), INT64)
    return rows, op.Unsqueeze(op.Mul(image, op.const(height * width)), [1, 2, 3, 4])


def _counting(op: Op, count: Value | int, like: Value) -> Value:
    return op.const(op.Range(0, op.const(count), 1), like=like)


def samples(op: Op, side: Side, ratio: int) -> tuple[Taps, Taps]:
    """Compute the sampling points of RoiAlign: `ratio` points in each bin, or as many as it has pixels if that is 0.

    Each point is between two places, whose weights tell how near they are; points off the image weigh 0. The weights
    of a bin add up to 1 or less: He et al., Mask R-CNN, 2017.
    """
    start, length = side.start, side.length
    bin_length = op.Div(length, op.const(float(side.bins), like=length))
    if ratio > 0:
        points, most = op.const(float(ratio), like=length), op.const(ratio)
    else:
        points = op.Ceil(bin_length)
        most = op.cast(op.ReduceMax(op.Concat(op.Reshape(points, [-1]), op.const([1.0], like=points), axis=0)), INT64)
        most = op.Squeeze(most, [0])
    bins = op.Unsqueeze(_counting(op, side.bins, length), [1])
    nth = _counting(op, most, length)
    at_least_one = op.Max(points, op.const(1.0, like=points))
    within = op.Div(op.Mul(op.Add(nth, 0.5), bin_length), at_least_one)
    at = op.Add(op.Add(start, op.Mul(bins, bin_length)), within)
    inside = op.And(op.GreaterOrEqual(at, -1.0), op.LessOrEqual(at, op.const(side.size, like=at)))
    inside = op.const(op.And(inside, op.Less(nth, points)), like=at)
    share = op.Div(inside, at_least_one)
    at = op.Min(op.Max(at, op.const(0.0, like=at)), op.const(side.size - 1, like=at))
    low = op.Floor(at)
    toward = op.Sub(at, low)
    place = op.cast(low, INT64)
    after = op.Min(op.Add(place, 1), op.const(side.size - 1))
    return Taps(place, op.Mul(op.Sub(1.0, toward), share)), Taps(after, op.Mul(toward, share))


def _down(op: Op, value: Value) -> Value:
    """[K, bins, taps] as [K, bins, 1, taps, 1]."""
    return op.Unsqueeze(value, [2, 4])


def _across(op: Op, value: Value) -> Value:
    """[K, bins, taps] as [K, 1, bins, 1, taps]."""
    return op.Unsqueeze(value, [1, 3])


def averages(op: Op, x: Value, rois: Value, down: Side, across: Side, ratio: int) -> Value:
    """The weighted sum of what the taps of each bin look at: [K, C, bins down, bins across]."""
    rows, begin = images(op, x, rois)
    width = op.const(op.sizes(x)[3])
    lines, columns = samples(op, down, ratio), samples(op, across, ratio)
    total: Value | None = None
    for line in lines:
        first = op.Add(begin, op.Mul(_down(op, line.place), width))
        for place in columns:
            found = op.Gather(rows, op.Add(first, _across(op, place.place)), axis=0)
            weight = op.Mul(_down(op, line.weight), _across(op, place.weight))
            part = op.ReduceSum(op.Mul(found, op.Unsqueeze(weight, [BINS_AND_TAPS])), [3, 4], keepdims=0)
            total = part if total is None else op.Add(total, part)
    return op.Transpose(total, perm=[0, 3, 1, 2])


def spans(op: Op, side: Side) -> Taps:
    """The pixels of each bin of an axis, which is cut at whole numbers; the weight is whether a tap is one of them."""
    bin_length = op.Div(side.length, op.const(float(side.bins), like=side.length))
    bins = op.Unsqueeze(_counting(op, side.bins, bin_length), [1])
    last = op.const(side.size, like=bin_length)

    def cut(edge: Value) -> Value:
        placed = op.Add(edge, side.start)
        return op.cast(op.Min(op.Max(placed, op.const(0.0, like=placed)), last), INT64)

    begin = cut(op.Floor(op.Mul(bins, bin_length)))
    end = cut(op.Ceil(op.Mul(op.Add(bins, 1.0), bin_length)))
    lengths = op.Concat(op.Reshape(op.Sub(end, begin), [-1]), op.const([1]), axis=0)
    place = op.Add(begin, op.Range(0, op.Squeeze(op.ReduceMax(lengths), [0]), 1))
    return Taps(op.Min(place, op.const(side.size - 1)), op.Less(place, end))


def maxima(op: Op, x: Value, rois: Value, down: Side, across: Side) -> tuple[Value, Value]:
    """The largest value of each bin and its place in the plane, the first of equals: [K, C, bins down, bins across].

    An empty bin has 0, at place -1.
    """
    rows, begin = images(op, x, rois)
    _, _, height, width = op.sizes(x)
    lines, columns = spans(op, down), spans(op, across)
    plane = op.Add(op.Mul(_down(op, lines.place), op.const(width)), _across(op, columns.place))
    belongs = op.Unsqueeze(op.And(_down(op, lines.weight), _across(op, columns.weight)), [BINS_AND_TAPS])
    assert x.dtype is not None
    found = op.Where(belongs, op.Gather(rows, op.Add(begin, plane), axis=0), op.const(lowest(x.dtype), like=x))
    largest = op.ReduceMax(found, [3, 4])
    beyond = op.const(height * width)
    is_it = op.And(belongs, op.Equal(found, largest))
    place = op.ReduceMin(op.Where(is_it, op.Unsqueeze(plane, [BINS_AND_TAPS]), beyond), [3, 4], keepdims=0)
    empty = op.Equal(place, beyond)
    value = op.Where(empty, op.const(0.0, like=x), op.Squeeze(largest, [3, 4]))
    order = [0, 3, 1, 2]
    return op.Transpose(value, perm=order), op.Transpose(op.Where(empty, op.const(-1), place), perm=order)
