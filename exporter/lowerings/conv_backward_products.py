"""The gradients of a convolution as products of matrices: for outputs of few places, as deep layers have them.

There the weight is the larger operand. A product reads it once for the whole batch, as it lies in memory, where ONNX
Runtime's convolutions go over it again for every sample, and their results need to be transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from exporter.lower.builder import Op, Value
from exporter.lower.symbols import is_symbolic
from exporter.lowerings.windows import unless

FEW = 16
"""Places of an output, without batch and channels, up to which products were faster on a CPU, and never slower."""


def of_few_places(op: Op, wide: Value, narrow: Value, groups: int) -> bool:
    """Whether products serve the gradients between the two, of which a stride makes one the narrower."""
    spatial = [*op.sizes(wide)[2:], *op.sizes(narrow)[2:]]
    known = groups == 1 and narrow.dtype == ir.DataType.FLOAT and not any(is_symbolic(size) for size in spatial)
    return known and prod(map(int, op.sizes(narrow)[2:])) <= FEW


def input_by_products(
    op: Op,
    grad: Value,
    x: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """[N·places, O] times the weight as [O, C·kernel]: what each place gives to its block; blocks add up."""
    batch, outputs, *places = op.sizes(grad)
    channels, *kernel = op.sizes(weight)[1:]
    count, size = prod(map(int, places)), int(channels) * prod(map(int, kernel))
    turned = op.Transpose(op.reshape(grad, [batch, outputs, count]), perm=[0, 2, 1])
    rows = op.reshape(op.typed(turned, [batch, count, outputs]), [batch * count, outputs])
    product = op.MatMul(rows, op.reshape(weight, [outputs, size]))
    blocks = op.reshape(op.typed(product, [batch * count, size]), [batch, count, size])
    return op.Col2Im(
        op.Transpose(blocks, perm=[0, 2, 1]),
        op.shape(op.sizes(x)[2:]),
        op.shape(kernel),
        strides=unless(stride, 1),
        pads=unless((*padding, *padding), 0),
        dilations=unless(dilation, 1),
    )


def weight_by_products(
    op: Op,
    wide: Value,
    narrow: Value,
    weight: Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """[O, N·places] times the blocks under the places as [N·places, C·kernel]."""
    batch, channels, *spatial = op.sizes(wide)
    outputs, places, kernel = op.sizes(narrow)[1], op.sizes(narrow)[2:], op.sizes(weight)[2:]
    padded = [int(size) + 2 * before for size, before in zip(spatial, padding, strict=True)]
    pads = [0, 0, *padding, 0, 0, *padding]
    x = op.Pad(wide, op.const(pads, dtype=ir.DataType.INT64)) if any(padding) else wide
    flat = op.reshape(op.typed(x, [batch, channels, *padded]), [batch, channels, prod(padded)])
    index = _blocks(list(map(int, places)), list(map(int, kernel)), padded, stride, dilation)
    count, size = index.shape
    blocks = op.Gather(flat, op.const(index, dtype=ir.DataType.INT64), axis=2)
    turned = op.typed(op.Transpose(blocks, perm=[0, 2, 1, 3]), [batch, count, channels, size])
    columns = op.reshape(narrow, [batch, outputs, count])
    left = op.reshape(
        op.typed(op.Transpose(columns, perm=[1, 0, 2]), [outputs, batch, count]), [outputs, batch * count]
    )
    product = op.MatMul(left, op.reshape(turned, [batch * count, channels * size]))
    return op.reshape(op.typed(product, [outputs, channels * size]), op.sizes(weight))


def _blocks(
    places: Sequence[int], kernel: Sequence[int], padded: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """Where in the flattened padded input the elements of each place's block are, as [places, kernel]."""
    index = np.zeros((), np.int64)
    for count, size, extent, step, gap in zip(places, kernel, padded, stride, dilation, strict=True):
        along = np.arange(count)[:, None] * step + np.arange(size) * gap
        index = index[..., None, None] * extent + along
    axes = [*range(0, 2 * len(places), 2), *range(1, 2 * len(places), 2)]
    return index.transpose(axes).reshape(int(np.prod(places)), int(np.prod(kernel)))
