"""Convolutions and their gradients as products of matrices, where the weight is no constant, as in training.

ONNX Runtime's Conv multiplies sample by sample: in deep layers, whose outputs have few places, it goes over the whole
weight for each of them. The gradient of a weight as a Conv has kernels as large as an output and results as small as a
kernel, which its products are slow at. One product for the whole batch reads every operand once, as it lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.windows import number_of_windows, unless

FEW = 16
"""Places of an output, without batch and channels, up to which products were faster on a CPU, and never slower."""

MANY, WIDE = 1024, 16
"""Places up to which, and input channels from which on, that holds of the gradient of the weight."""


def of_few_places(op: Op, wide: Value, narrow: Value, groups: int) -> bool:
    """Return True if products serve the gradients between the two, of which a stride makes one the narrower."""
    spatial = [*op.sizes(wide)[2:], *op.sizes(narrow)[2:]]
    return _served(narrow, groups, spatial) and prod(map(int, op.sizes(narrow)[2:])) <= FEW


def input_is_served(op: Op, wide: Value, narrow: Value, groups: int, dilation: Sequence[int]) -> bool:
    """Return True if a product serves the gradient of the input. ONNX Runtime's Col2Im has dilations of two axes only:
    with one or three it puts elements elsewhere.
    """
    is_right = len(dilation) == 2 or set(dilation) == {1}
    return is_right and of_few_places(op, wide, narrow, groups)


def weight_is_served(op: Op, wide: Value, narrow: Value, groups: int) -> bool:
    """Return True if a product serves the gradient of the weight between the two."""
    if of_few_places(op, wide, narrow, groups):
        return True
    spatial, channels = [*op.sizes(wide)[2:], *op.sizes(narrow)[2:]], op.sizes(wide)[1]
    known = _served(narrow, groups, [*spatial, channels])
    return known and prod(map(int, op.sizes(narrow)[2:])) <= MANY and int(channels) >= WIDE


def output_is_served(op: Op, x: Value, weight: Value, outputs: Sequence[Size], groups: Size) -> bool:
    """Return True if a product serves a convolution with `outputs` places. ONNX Runtime arranges constant weights for
    Conv.
    """
    known = weight.const_value is None and _served(x, groups, [*op.sizes(x)[2:], *outputs, *op.sizes(weight)[1:]])
    return known and prod(map(int, outputs)) <= FEW


def _served(x: Value, groups: Size, sizes: Sequence[Size]) -> bool:
    return groups == 1 and x.dtype == ir.DataType.FLOAT and not any(is_symbolic(size) for size in sizes)


def places_of(
    sizes: Sequence[Size],
    kernel: Sequence[Size],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Size]:
    """The spatial sizes of a convolution's output."""
    return [
        number_of_windows(size + 2 * before, gap * (extent - 1) + 1, step, 0, False)
        for size, extent, step, before, gap in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]


def output_by_products(
    op: Op,
    x: Value,
    weight: Value,
    places: Sequence[Size],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """The weight as [O, C·kernel] times the blocks under the places: [O, N·places]."""
    batch, outputs, count = op.sizes(x)[0], op.sizes(weight)[0], prod(map(int, places))
    rows = _rows(op, x, places, op.sizes(weight)[2:], stride, padding, dilation)
    flat = op.reshape(weight, [outputs, prod(map(int, op.sizes(weight)[1:]))])
    product = op.reshape(op.typed(op.Gemm(flat, rows, transB=1), [outputs, batch * count]), [outputs, batch, count])
    return op.reshape(
        op.typed(op.Transpose(product, perm=[1, 0, 2]), [batch, outputs, count]), [batch, outputs, *places]
    )


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
    """[O, N·places] times the blocks under the places."""
    batch, outputs, *places = op.sizes(narrow)
    rows = _rows(op, wide, places, op.sizes(weight)[2:], stride, padding, dilation)
    count = prod(map(int, places))
    columns = op.Transpose(op.reshape(narrow, [batch, outputs, count]), perm=[1, 0, 2])
    left = op.reshape(op.typed(columns, [outputs, batch, count]), [outputs, batch * count])
    size = prod(map(int, op.sizes(weight)[1:]))
    return op.reshape(op.typed(op.MatMul(left, rows), [outputs, size]), op.sizes(weight))


def _rows(
    op: Op,
    x: Value,
    places: Sequence[Size],
    kernel: Sequence[Size],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """The blocks of `x` under the places, [N·places, C·kernel].

    Gather takes them with the channels last, where each position is one stretch of memory. A convolution and the
    gradient of its weight have them in common.
    """
    batch, channels, *spatial = op.sizes(x)
    padded = [int(size) + 2 * before for size, before in zip(spatial, padding, strict=True)]
    if any(padding):
        x = op.Pad(x, op.const([0, 0, *padding, 0, 0, *padding], dtype=ir.DataType.INT64))
    index = _blocks(list(map(int, places)), list(map(int, kernel)), padded, stride, dilation)
    count, size = index.shape
    flat = op.reshape(op.typed(x, [batch, channels, *padded]), [batch, channels, prod(padded)])
    last = op.Transpose(flat, perm=[0, 2, 1])
    blocks = op.Gather(last, op.const(index, dtype=ir.DataType.INT64), axis=1)
    turned = op.typed(op.Transpose(blocks, perm=[0, 1, 3, 2]), [batch, count, channels, size])
    return op.reshape(turned, [batch * count, channels * size])


def _blocks(
    places: Sequence[int], kernel: Sequence[int], padded: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """Compute the indices of each place's block in the flattened padded input, as [places, kernel]."""
    index = np.zeros((), np.int64)
    for count, size, extent, step, gap in zip(places, kernel, padded, stride, dilation, strict=True):
        along = np.arange(count)[:, None] * step + np.arange(size) * gap
        index = index[..., None, None] * extent + along
    axes = [*range(0, 2 * len(places), 2), *range(1, 2 * len(places), 2)]
    return index.transpose(axes).reshape(int(np.prod(places)), int(np.prod(kernel)))
