"""Convolutions as products of matrices, where Conv does not serve.

ONNX Runtime's Conv and ConvTranspose on the CPU are float32 alone, and ONNX has the number of groups as an attribute,
which a model that convolves each sample with a kernel of its own makes of the batch's size.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.symbols import Size, is_symbolic
from fxport.exporter.lowering.lowerings.axes import BEFORE_FIRST, product
from fxport.exporter.lowering.lowerings.windows import divided, number_of_windows, taps, windows


def by_products(x: Value, groups: Size) -> bool:
    """Return True if a convolution has to be written as products."""
    return x.dtype == ir.DataType.DOUBLE or is_symbolic(groups)


def convolved(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    pads: Sequence[Size],
    dilation: Sequence[int],
    groups: Size,
) -> Value:
    """`x` [N, C, …] convolved with `weight` [O, C / groups, …]: what each window holds, times the weights.

    `pads` are those before each spatial axis, then those after.
    """
    axes = len(stride)
    batch, channels, *sizes = op.sizes(x)
    out_channels, per_group, *kernel = op.sizes(weight)
    before, after = pads[:axes], pads[axes:]
    reach = [step * (extent - 1) + 1 for extent, step in zip(kernel, dilation, strict=True)]
    grown = [first + size + last for first, size, last in zip(before, sizes, after, strict=True)]
    padded = op.Pad(x, op.shape([0, 0, *before, 0, 0, *after])) if any(pads) else x
    outs = [
        number_of_windows(size, extent, step, 0, False) for size, extent, step in zip(grown, reach, stride, strict=True)
    ]
    tables = [taps(op, *each) for each in zip(outs, stride, kernel, dilation, strict=True)]
    held = op.typed(windows(op, op.typed(padded, [batch, channels, *grown]), tables), [batch, channels, *outs, *kernel])
    order = [0, *range(2, 2 + axes), 1, *range(2 + axes, 2 + 2 * axes)]
    depth, places = product([per_group, *kernel]), product(outs)
    rows = op.typed(op.Transpose(held, perm=order), [batch, *outs, channels, *kernel])
    rows = op.typed(
        op.Transpose(op.reshape(rows, [batch, places, groups, depth]), perm=[0, 2, 1, 3]),
        [batch, groups, places, depth],
    )
    each = divided(out_channels, groups)
    columns = op.Transpose(op.reshape(weight, [groups, each, depth]), perm=[0, 2, 1])
    products = op.Transpose(op.MatMul(rows, columns), perm=[0, 1, 3, 2])
    y = op.reshape(op.typed(products, [batch, groups, each, places]), [batch, out_channels, *outs])
    return y if bias is None else op.typed(op.Add(y, op.Unsqueeze(bias, [*range(1, axes + 1)])), op.sizes(y))


def transposed(
    op: Op,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: Size,
) -> Value:
    """The transpose: zeros between the elements of `x`, convolved with the reversed kernel [C, O / groups, …]."""
    axes = len(stride)
    batch, channels, *sizes = op.sizes(x)
    _, per_group, *kernel = op.sizes(weight)
    spread = [size * step for size, step in zip(sizes, stride, strict=True)]
    if any(step > 1 for step in stride):
        apart = op.Unsqueeze(x, [3 + 2 * axis for axis in range(axes)])
        zeros = [0, 0, *(end for step in stride for end in (0, step - 1))]
        filled = [batch, channels, *(end for pair in zip(sizes, stride, strict=True) for end in pair)]
        x = op.reshape(op.typed(op.Pad(apart, [*[0] * len(zeros), *zeros]), filled), [batch, channels, *spread])
    reach = [step * (extent - 1) for extent, step in zip(kernel, dilation, strict=True)]
    before = [end - crop for end, crop in zip(reach, padding, strict=True)]
    after = [
        end + more - (step - 1) for end, more, step in zip(before, output_padding, stride, strict=True)
    ]  # the zeros behind the last element count for none
    last = [*range(2, 2 + axes)]
    turned = op.Slice(weight, [-1] * axes, [BEFORE_FIRST] * axes, last, [-1] * axes)
    share = divided(channels, groups)
    turned = op.reshape(op.typed(turned, op.sizes(weight)), [groups, share, per_group, *kernel])
    turned = op.Transpose(turned, perm=[0, 2, 1, *range(3, 3 + axes)])
    turned = op.reshape(
        op.typed(turned, [groups, per_group, share, *kernel]), [product([groups, per_group]), share, *kernel]
    )
    return convolved(op, x, turned, bias, [1] * axes, [*before, *after], dilation, groups)
