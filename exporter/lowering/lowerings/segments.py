"""Runs of elements that belong together: repeat_interleave, segment_reduce."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Size, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.axes import axis_of, sliced
from fxport.exporter.lowering.lowerings.indices import INT64
from fxport.exporter.lowering.lowerings.scatter import IDENTITIES, REDUCTIONS, along, scatter_reduced
from fxport.exporter.lowering.lowerings.shape import spread

aten = torch.ops.aten

SEGMENT_REDUCTIONS: Mapping[str, str] = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
"""Name of the same reduction in segment_reduce and scatter_reduce."""


@lowering(aten.repeat_interleave.Tensor)
def repeat_interleave(op: Op, repeats: Value, *, output_size: Size | None = None) -> Value:
    """repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor

    For each place of the result, how many runs end at or before it.
    """
    counts = op.cast(repeats, INT64)
    length = op.ReduceSum(counts, [0], keepdims=1) if output_size is None else op.shape([output_size])
    ends = op.typed(op.CumSum(counts, 0), op.sizes(repeats))
    return op.cast(boundaries_passed(op, ends, length), op.out.dtype)


def boundaries_passed(op: Op, boundaries: Value, shape: Value) -> Value:
    """Count the boundaries at or before each place along the last axis: INT64 of the shape given as a vector.

    `boundaries` are INT64 [..., n] from 0 to the size of that axis. They are marked where they stand, then counted.
    """
    axis = op.rank(boundaries) - 1
    room = op.Add(shape, [0] * axis + [1])
    zeros = op.ConstantOfShape(room, value=np.zeros(1, np.int64))
    ones = spread(op, 1, zeros.dtype, op.sizes(boundaries))
    marked = op.ScatterElements(zeros, boundaries, ones, axis=axis, reduction="add")
    passed = op.CumSum(marked, axis)
    return op.Slice(passed, [0], [-1], [axis])


@lowering(aten.segment_reduce.default)
def segment_reduce(
    op: Op,
    data: Value,
    reduce: str,
    *,
    lengths: Value | None = None,
    indices: Value | None = None,
    offsets: Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Scalar | None = None,
) -> Value:
    """segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor

    Segments follow one another along an axis. An empty one is `initial`, or what the reduction begins with; its mean NaN.
    """  # noqa: E501  # the schema is one line
    if reduce not in SEGMENT_REDUCTIONS or indices is not None:
        raise Unsupported(f"the reduction '{reduce}'" if indices is None else "segments by indices")
    name = SEGMENT_REDUCTIONS[reduce]
    axis = axis_of(axis, op.rank(data))
    sizes = op.sizes(data)[: axis + 1]
    numbers = op.typed(boundaries_passed(op, _ends(op, lengths, offsets, axis), op.shape(sizes)), sizes)
    data = op.cast(data, ir.DataType.FLOAT) if data.dtype in HALVES else data
    targets = along(op, numbers, data, axis)
    start = IDENTITIES[REDUCTIONS.get(name, "add")](data.dtype) if initial is None else initial  # type: ignore[arg-type]
    base = spread(op, start, data.dtype, op.out.sizes)
    if name != "mean":
        return op.cast(scatter_reduced(op, base, targets, name, include_self=True), op.out.dtype)
    total = scatter_reduced(op, base, targets, "sum", include_self=True)
    counts = targets.fill(op, spread(op, 0, data.dtype, op.out.sizes), 1, "add")
    return op.cast(op.Div(total, counts if initial is None else op.Max(counts, 1.0)), op.out.dtype)


def _ends(op: Op, lengths: Value | None, offsets: Value | None, axis: int) -> Value:
    """Compute the ends of segments, counted along their axis."""
    if lengths is not None:
        return op.typed(op.CumSum(op.cast(lengths, INT64), axis), op.sizes(lengths))
    assert offsets is not None, "PyTorch asks for lengths or offsets"
    sizes = list(op.sizes(offsets))
    return op.typed(sliced(op, op.cast(offsets, INT64), axis, 1), [*sizes[:axis], sizes[axis] - 1])
