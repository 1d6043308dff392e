"""Counts: bincount, rows of sorted indices, and histograms in any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import flat, product
from fxport.exporter.lowering.lowerings.extremes import largest, smallest
from fxport.exporter.lowering.lowerings.search import places

aten = torch.ops.aten


@lowering(aten.bincount.default)
def bincount(op: Op, x: Value, weights: Value | None = None, minlength: Size = 0) -> Value:
    """bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor

    The largest of no numbers is the smallest INT64, so that an empty tensor gives `minlength` zeros.
    """
    x = op.cast(x, ir.DataType.INT64)
    bins = op.Max(op.Add(op.ReduceMax(x, keepdims=1), 1), op.shape([minlength]))
    once = op.const(1, dtype=op.out.dtype) if weights is None else op.cast(weights, op.out.dtype)
    return _summed(op, bins, x, op.Expand(once, op.Shape(x)) if weights is None else once)


@lowering(aten._convert_indices_from_coo_to_csr.default)
def _convert_indices_from_coo_to_csr(op: Op, x: Value, size: int, *, out_int32: bool = False) -> Value:
    """_convert_indices_from_coo_to_csr(Tensor self, int size, *, bool out_int32=False) -> Tensor

    How many of the sorted indices come before each row: the counts of the rows before it, summed up.
    """
    rows = op.Add(op.cast(x, ir.DataType.INT64), 1)
    once = op.Expand(op.const(1, dtype=op.out.dtype), op.Shape(x))
    return op.CumSum(_summed(op, op.shape([size + 1]), rows, once), 0)


@lowering(aten.histc.default)
def histc(op: Op, x: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor

    Equal ends ask for those of the data. The bin follows by division, as PyTorch has it, and not by comparison with
    rounded edges.
    """
    x = flat(op, x)
    left, right = _ends(op, x, None if min == max else (min, max), spread=1.0)
    share = op.Div(op.Mul(op.Sub(x, left), float(bins)), op.Sub(right, left))
    bin_of = op.Cast(op.Floor(share), to=ir.DataType.INT64)
    return _hist(op, [bins], [bin_of], _inside(op, x, left, right), op.const(1, like=x))


@lowering(aten.histogram.bin_ct)
def histogram(
    op: Op,
    x: Value,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> tuple[Value, Value]:
    """histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) \
-> (Tensor hist, Tensor bin_edges)"""
    edges = _edges(op, flat(op, x), bins, range)
    return histogram_by_edges(op, x, edges, weight=weight, density=density)


@lowering(aten.histogram.bins_tensor)
def histogram_by_edges(
    op: Op, x: Value, bins: Value, *, weight: Value | None = None, density: bool = False
) -> tuple[Value, Value]:
    """histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) \
-> (Tensor hist, Tensor bin_edges)"""
    return _counted(op, [flat(op, x)], [bins], weight, density), bins


@lowering(aten._histogramdd_bin_edges.default)
def histogramdd_bin_edges(
    op: Op,
    x: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> list[Value]:
    """_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, \
bool density=False) -> Tensor[]"""
    columns = _columns(op, x)
    ranges = [range[2 * i : 2 * i + 2] if range else None for i, _ in enumerate(columns)]
    return [_edges(op, column, count, ends) for column, count, ends in zip(columns, bins, ranges, strict=True)]


@lowering(aten._histogramdd_from_bin_cts.default)
def histogramdd(
    op: Op,
    x: Value,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Value | None = None,
    density: bool = False,
) -> Value:
    """_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, \
bool density=False) -> Tensor"""
    return _counted(op, _columns(op, x), histogramdd_bin_edges(op, x, bins, range=range), weight, density)


@lowering(aten._histogramdd_from_bin_tensors.default)
def histogramdd_by_edges(
    op: Op, x: Value, bins: Sequence[Value], *, weight: Value | None = None, density: bool = False
) -> Value:
    """_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) \
-> Tensor"""
    return _counted(op, _columns(op, x), bins, weight, density)


def _columns(op: Op, x: Value) -> list[Value]:
    """The coordinates of points: one vector for each place along the last axis."""
    *outer, count = op.sizes(x)
    points = product(outer)
    rows = op.reshape(x, [points, count])
    return [op.typed(op.Gather(rows, column, axis=1), [points]) for column in range(int(count))]


def _ends(op: Op, x: Value, given: Sequence[float] | None, spread: float) -> tuple[Value, Value]:
    """The outer edges: given, or else of the data; equal ones are moved apart."""
    if given is None and op.sizes(x) == (0,):
        given = (0.0, 1.0)
    if given is not None:
        less = spread if given[0] == given[1] else 0.0
        return op.const(float(given[0]) - less, like=x), op.const(float(given[1]) + less, like=x)
    left, right = smallest(op, x), largest(op, x)
    more = op.Where(op.Equal(left, right), op.const(spread, like=x), 0.0)
    return op.Sub(left, more), op.Add(right, more)


def _edges(op: Op, x: Value, bins: int, given: Sequence[float] | None) -> Value:
    """Edges of bins of equal width, as `torch.linspace` computes them: each from the end that is nearer."""
    left, right = _ends(op, x, given, spread=0.5)
    width = op.Div(op.Sub(right, left), float(bins))
    number = np.arange(bins + 1)
    from_left = op.Add(left, op.Mul(width, op.const(number, like=x)))
    from_right = op.Sub(right, op.Mul(width, op.const(bins - number, like=x)))
    return op.typed(op.Where(op.const(number < (bins + 1) // 2), from_left, from_right), [bins + 1])


def _inside(op: Op, x: Value, left: Value, right: Value) -> Value:
    """Compute as BOOL where values are between the outer edges; NaN is not."""
    return op.And(op.GreaterOrEqual(x, left), op.LessOrEqual(x, right))


def _counted(op: Op, columns: Sequence[Value], edges: Sequence[Value], weight: Value | None, density: bool) -> Value:
    counts = [op.sizes(each)[0] - 1 for each in edges]
    bin_of = [op.Sub(places(op, edge, x, right=True), 1) for x, edge in zip(columns, edges, strict=True)]
    within = [_inside(op, x, op.Gather(edge, 0), op.Gather(edge, -1)) for x, edge in zip(columns, edges, strict=True)]
    inside = reduce(op.And, within)
    amount = op.const(1, like=columns[0]) if weight is None else flat(op, weight)
    hist = _hist(op, counts, bin_of, inside, amount)
    return _as_density(op, hist, edges) if density else hist


def _hist(op: Op, counts: Sequence[Size], bin_of: Sequence[Value], inside: Value, amount: Value) -> Value:
    """Sums of the amounts by bin; the last bin has the right edge, too."""
    within = [op.Min(each, op.const(count - 1)) for count, each in zip(counts, bin_of, strict=True)]
    place = within[0]
    for count, each in zip(counts[1:], within[1:], strict=True):
        place = op.Add(op.Mul(place, op.const(count)), each)
    place = op.Where(inside, place, 0)
    hist = _summed(op, op.shape([product(counts)]), place, op.Where(inside, amount, 0.0))
    return op.reshape(hist, counts)


def _summed(op: Op, bins: Value, place: Value, amount: Value) -> Value:
    """A vector of sums: each amount goes to the place that is given for it. ONNX Runtime adds no halves here."""
    wide = op.cast(amount, ir.DataType.FLOAT) if amount.dtype in HALVES else amount
    nothing = op.Expand(op.const(0, like=wide), bins)
    return op.const(op.ScatterElements(nothing, place, wide, axis=0, reduction="add"), like=amount)


def _as_density(op: Op, hist: Value, edges: Sequence[Value]) -> Value:
    """Such that the integral is 1."""
    hist = op.Div(hist, op.ReduceSum(hist, keepdims=0))
    for axis, edge in enumerate(edges):
        widths = op.Sub(op.Slice(edge, [1], [np.iinfo(np.int64).max], [0]), op.Slice(edge, [0], [-1], [0]))
        hist = op.Div(hist, op.reshape(widths, [1 if each != axis else -1 for each in range(len(edges))]))
    return hist
