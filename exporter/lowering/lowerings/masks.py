"""Results whose size depends on the data: nonzero, masked_select; and writing what a mask lets through."""

from __future__ import annotations

import numpy as np
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import flat, product, sliced
from fxport.exporter.lowering.lowerings.indices import broadcast, nonzero_places, nonzero_rows
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten


@lowering(aten.nonzero.default, aten.argwhere.default)
def nonzero(op: Op, x: Value) -> Value:
    """nonzero(Tensor self) -> Tensor"""
    return places(op, x)


def places(op: Op, x: Value) -> Value:
    """Compute the indices of a tensor's non-zero elements, INT64 [count, rank]; a 0-d tensor has no or one empty
    row.
    """
    if op.rank(x) == 0:
        found = nonzero_places(op, op.reshape(x, [1]))
        return op.ConstantOfShape(op.shape([op.sizes(found)[1], 0]), value=np.zeros(1, np.int64))
    return op.Transpose(nonzero_places(op, x), perm=[1, 0])


@lowering(aten.nonzero_static.default)
def nonzero_static(op: Op, x: Value, *, size: Size, fill_value: int = -1) -> Value:
    """nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor

    The first `size` of the places, and fillers enough for the case that there are none.
    """
    fillers = op.Expand(fill_value, op.shape(op.out.sizes))
    return sliced(op, op.Concat(places(op, x), fillers, axis=0), 0, 0, size)


@lowering(aten.where.default, aten.nonzero_numpy.default)
def where(op: Op, condition: Value) -> list[Value]:
    """where(Tensor condition) -> Tensor[]"""
    return nonzero_rows(op, op.reshape(condition, [1]) if op.rank(condition) == 0 else condition)


@lowering(aten.masked_select.default)
def masked_select(op: Op, x: Value, mask: Value) -> Value:
    """masked_select(Tensor self, Tensor mask) -> Tensor"""
    sizes = broadcast([op.sizes(x), op.sizes(mask)])
    return op.Compress(flat(op, expanded(op, x, sizes)), flat(op, expanded(op, mask, sizes)))


@lowering(aten.masked_scatter.default)
def masked_scatter(op: Op, x: Value, mask: Value, source: Value) -> Value:
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor

    ScatterND of as many elements of the source as there are places. Where the mask is the same all along the last axes,
    as a mask over tokens is, whole rows are written.
    """
    if 0 in op.out.sizes:  # ONNX Runtime's ScatterND refuses it
        return expanded(op, x, op.out.sizes)
    if op.out.rank == 0:
        whole = op.typed(op.Reshape(x, [1]), [1])
        return op.reshape(_masked_scatter(op, whole, op.reshape(mask, [1]), source, 1), [])
    mask = before_expansion(op, mask)
    wide = [1] * (op.out.rank - op.rank(mask)) + list(op.sizes(mask))
    depth = max((axis + 1 for axis, size in enumerate(wide) if size != 1), default=1)
    sizes = op.out.sizes[:depth]
    rows = expanded(op, op.reshape(mask, wide[:depth]) if wide[:depth] != list(op.sizes(mask)) else mask, sizes)
    return _masked_scatter(op, expanded(op, x, op.out.sizes), rows, source, depth)


def _masked_scatter(op: Op, x: Value, mask: Value, source: Value, depth: int) -> Value:
    """`mask` is over the first `depth` axes of `x`."""
    found = nonzero_places(op, mask)
    count, row = op.sizes(found)[1], list(op.sizes(x)[depth:])
    source = op.cast(source, x.dtype)  # type: ignore[arg-type]  # operands have dtypes
    if list(op.sizes(source)[1:]) == row and op.rank(source) > 0:
        updates = sliced(op, source, 0, 0, count)
    else:
        taken = op.typed(sliced(op, flat(op, source), 0, 0, count * product(row)), [count * product(row)])
        updates = op.reshape(taken, [count, *row]) if row else taken
    return op.ScatterND(x, op.Transpose(found, perm=[1, 0]), updates)


def before_expansion(op: Op, x: Value) -> Value:
    """Return the input of an Expand; any other value itself."""
    node = x.producer()
    inner = node.inputs[0] if node is not None and node.op_type == "Expand" else None
    return x if inner is None else inner
