"""Writing element by element along an axis: scatter, scatter_add, scatter_reduce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import highest, is_float, lowest
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, product
from fxport.exporter.lowering.lowerings.index import as_vector
from fxport.exporter.lowering.lowerings.index_put import WIDER
from fxport.exporter.lowering.lowerings.shape import expanded, spread

aten = torch.ops.aten

REDUCTIONS: Mapping[str, str] = {
    "sum": "add",
    "add": "add",
    "prod": "mul",
    "multiply": "mul",
    "amax": "max",
    "amin": "min",
}
"""ONNX's name for each of PyTorch's reductions; "mean" is made of sums."""

IDENTITIES: Mapping[str, Callable[[ir.DataType], Any]] = {
    "add": lambda dtype: 0,
    "mul": lambda dtype: 1,
    "max": lowest,
    "min": highest,
}
"""Initial value of a reduction that does not begin with the tensor's own element."""


@lowering(aten.scatter.src)
def scatter(op: Op, x: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scatter(op, x, dim, index, src)


@lowering(aten.scatter.value)
def scatter_value(op: Op, x: Value, dim: int, index: Value, value: Scalar) -> Value:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return _scatter(op, x, dim, index, value)


@lowering(aten.scatter_add.default)
def scatter_add(op: Op, x: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _reduced(op, x, dim, index, src, "add")


@lowering(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_by(op: Op, x: Value, dim: int, index: Value, src: Value | Scalar, *, reduce: str) -> Value:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _reduced(op, x, dim, index, src, reduce)


@lowering(aten.scatter_reduce.two)
def scatter_reduce(
    op: Op, x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"""  # noqa: E501  # the schema is one line
    return _reduced(op, x, dim, index, src, reduce, include_self)


def _scatter(op: Op, x: Value, dim: int, index: Value, src: Value | Scalar) -> Value:
    """The last value written to a place stays; 0-d tensors are vectors to ScatterElements."""
    data, places = as_vector(op, x), as_vector(op, index)
    if product(op.sizes(places)) == 0:
        return x
    y = op.ScatterElements(data, places, _updates(op, src, places, data), axis=axis_of(dim, op.rank(data)))
    return op.reshape(y, []) if op.rank(x) == 0 else y


def _updates(op: Op, src: Value | Scalar, places: Value, data: Value) -> Value:
    """The part of the source that has the sizes of the index, in the dtype of the data."""
    sizes = op.sizes(places)
    if not isinstance(src, ir.Value):
        return spread(op, src, data.dtype, sizes)
    src = as_vector(op, op.cast(src, data.dtype))  # type: ignore[arg-type]  # operands have dtypes
    longer = [axis for axis, size in enumerate(op.sizes(src)) if size != sizes[axis]]
    if not longer:
        return src
    ends = op.shape([sizes[axis] for axis in longer])
    return op.typed(op.Slice(src, [0] * len(longer), ends, longer), sizes)


def _reduced(
    op: Op, x: Value, dim: int, index: Value, src: Value | Scalar, reduce: str, include_self: bool = True
) -> Value:
    """ScatterElements with a reduction."""
    data, places = as_vector(op, x), as_vector(op, index)
    if product(op.sizes(places)) == 0:
        return x
    targets = Targets(places, _updates(op, src, places, data), axis_of(dim, op.rank(data)))
    y = scatter_reduced(op, data, targets, reduce, include_self)
    return op.reshape(y, []) if op.rank(x) == 0 else y


@lowering(aten.index_reduce.default)
def index_reduce(
    op: Op, x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor"""  # noqa: E501  # the schema is one line
    data, places = as_vector(op, x), as_vector(op, index)
    if product(op.sizes(places)) == 0:
        return x
    axis, updates = axis_of(dim, op.rank(data)), as_vector(op, op.cast(source, op.out.dtype))
    targets = rows(op, places, updates) if axis == 0 else along(op, places, updates, axis)
    y = scatter_reduced(op, data, targets, reduce, include_self)
    return op.reshape(y, []) if op.rank(x) == 0 else y


# Reductions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Targets:
    """Indices and updates: for ScatterElements along an axis, or without one for ScatterND."""

    index: Value
    updates: Value
    axis: int | None = None

    def scatter(self, op: Op, data: Value, updates: Value, reduction: str | None = None) -> Value:
        if self.axis is None:
            y = op.ScatterND(data, self.index, updates, reduction=reduction)
        else:
            y = op.ScatterElements(data, self.index, updates, axis=self.axis, reduction=reduction)
        return op.typed(y, op.sizes(data))

    def fill(self, op: Op, data: Value, value: Any, reduction: str | None = None) -> Value:
        """`data` with one value at all places, or with it added and so on."""
        return self.scatter(op, data, spread(op, value, data.dtype, op.sizes(self.updates)), reduction)


def rows(op: Op, index: Value, updates: Value) -> Targets:
    """Rows `updates` [n, …] for the numbers `index` [n]."""
    return Targets(op.Unsqueeze(op.cast(index, ir.DataType.INT64), [1]), updates)


def along(op: Op, index: Value, updates: Value, axis: int) -> Targets:
    """Slices `updates` for the numbers `index` [..., n] of an axis; in front of n are all axes before it, or none."""
    behind = op.rank(updates) - axis - 1
    sizes = [*op.sizes(index), *[1] * behind]
    wide = index if behind == 0 else op.reshape(index, sizes)
    return Targets(expanded(op, wide, op.sizes(updates)), updates, axis)


def scatter_reduced(op: Op, data: Value, targets: Targets, reduce: str, include_self: bool) -> Value:
    """`data` reduced with the updates; without `include_self`, only the updates of those elements that have any.

    What ONNX Runtime has no kernel for is reduced in a wider dtype. Its max and min lose NaN, so where one takes part
    is found out beside them.
    """
    if reduce != "mean" and reduce not in REDUCTIONS:
        raise Unsupported(f"the reduction '{reduce}'")
    if data.dtype in WIDER:
        wide = Targets(targets.index, op.cast(targets.updates, WIDER[data.dtype]), targets.axis)
        return op.const(scatter_reduced(op, op.cast(data, WIDER[data.dtype]), wide, reduce, include_self), like=data)
    reduction = REDUCTIONS.get(reduce, "add")
    if not include_self:
        data = targets.fill(op, data, IDENTITIES[reduction](data.dtype))  # type: ignore[arg-type]
    y = targets.scatter(op, data, targets.updates, reduction)
    if reduce == "mean":
        return _divided(op, y, _counts(op, data, targets, include_self))
    if reduction in ("max", "min") and is_float(data.dtype):
        nans = op.typed(op.IsNaN(data), op.sizes(data))
        return op.Where(targets.scatter(op, nans, op.IsNaN(targets.updates), "add"), float("nan"), y)
    return y


def _counts(op: Op, data: Value, targets: Targets, include_self: bool) -> Value:
    """Compute the number of elements of each mean, at least 1."""
    start = spread(op, 1, data.dtype, op.sizes(data))
    return targets.fill(op, start if include_self else targets.fill(op, start, 0), 1, "add")


def _divided(op: Op, x: Value, count: Value) -> Value:
    """Quotients; those of integers are rounded down, where ONNX's Div rounds towards zero."""
    if is_float(x.dtype):
        return op.Div(x, count)
    return op.Div(op.Sub(x, op.Mod(x, count)), count)
