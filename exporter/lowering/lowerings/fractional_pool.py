"""Maxima over windows whose places are drawn at random: Graham, Fractional Max-Pooling, 2015."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size
from fxport.exporter.lowering.lowerings.axes import product, sliced
from fxport.exporter.lowering.lowerings.windows import batched, numbers, unbatched

aten = torch.ops.aten

INT64 = ir.DataType.INT64


@lowering(aten.fractional_max_pool2d.default)
def fractional_max_pool2d(
    op: Op, x: Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Value
) -> tuple[Value, Value]:
    """fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples) -> (Tensor, Tensor)

    The two samples of a channel are of its width and its height, in this order.
    """  # noqa: E501
    return _pooled(op, x, numbers(kernel_size, 2, "kernel size"), output_size, random_samples, (1, 0))


@lowering(aten.fractional_max_pool3d.default)
def fractional_max_pool3d(
    op: Op, x: Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: Value
) -> tuple[Value, Value]:
    """fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples) -> (Tensor, Tensor)

    The three samples of a channel are of its depth, its height and its width.
    """  # noqa: E501
    return _pooled(op, x, numbers(kernel_size, 3, "kernel size"), output_size, random_samples, (0, 1, 2))


def _pooled(
    op: Op, x: Value, kernel: Sequence[int], counts: Sequence[int], drawn: Value, order: Sequence[int]
) -> tuple[Value, Value]:
    """Every channel has windows of its own, so they are gathered from its flattened plane; the first of equals wins."""
    axes = len(kernel)
    whole = batched(op, x, axes)
    lead, sizes = op.sizes(whole)[:2], op.sizes(whole)[2:]
    if op.sizes(drawn)[0] != lead[0]:  # PyTorch takes the first of more samples than there are pictures
        drawn = sliced(op, drawn, 0, 0, lead[0])
    place = op.const(0)
    for axis in range(axes):
        sample = op.Unsqueeze(op.Gather(drawn, order[axis], axis=2), [2])
        starts = _starts(op, sample, sizes[axis], counts[axis], kernel[axis])
        at = op.Add(op.Unsqueeze(starts, [3]), op.Range(0, kernel[axis], 1))
        others = [each for each in range(2 * axes) if each not in (axis, axes + axis)]
        place = op.Add(op.Mul(place, op.const(sizes[axis])), op.Unsqueeze(at, [2 + each for each in others]))
    windows = [*lead, *counts, product(kernel)]
    places = op.reshape(op.typed(place, [*lead, *counts, *kernel]), windows)
    flat = op.reshape(places, [*lead, product(windows[2:])])
    found = op.GatherElements(op.reshape(whole, [*lead, product(sizes)]), flat, axis=2)
    found = op.reshape(op.typed(found, [*lead, product(windows[2:])]), windows)
    tap = op.ArgMax(found, axis=-1, keepdims=1)
    chosen = op.Squeeze(op.GatherElements(places, tap, axis=axes + 2), [-1])
    return unbatched(op, op.ReduceMax(found, [-1], keepdims=0), x, axes), unbatched(op, chosen, x, axes)


def _starts(op: Op, sample: Value, size: Size, count: int, extent: int) -> Value:
    """Compute the starts of the windows: ⌊(i + u)·a⌋ - ⌊u·a⌋, a = (size - extent) / (count - 1), and the last at the
    end.
    """
    last = op.const(size - extent)
    if count == 1:
        return op.Add(op.Mul(op.cast(sample, INT64), 0), last)
    apart = op.Div(op.const(size - extent, like=sample), op.const(count - 1, like=sample))
    index = op.Range(0, count, 1)
    ahead = op.cast(op.Mul(op.Add(op.const(index, like=sample), sample), apart), INT64)
    starts = op.Sub(ahead, op.cast(op.Mul(sample, apart), INT64))
    return op.Where(op.Equal(index, count - 1), last, starts)
