"""Blocks of an image and channels: col2im, pixel_shuffle, pixel_unshuffle."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import product

aten = torch.ops.aten


@lowering(aten.col2im.default)
def col2im(
    op: Op,
    x: Value,
    output_size: Sequence[Size],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor

    Col2Im, which is about batches: an image alone is a batch of one.
    """  # noqa: E501  # the schema is one line
    alone = op.rank(x) == 2
    images = op.Col2Im(
        op.Unsqueeze(x, [0]) if alone else x,
        op.shape(output_size),
        list(kernel_size),
        dilations=dilation,
        pads=[*padding, *padding],
        strides=stride,
    )
    return op.Squeeze(images, [0]) if alone else images


@lowering(aten.pixel_shuffle.default)
def pixel_shuffle(op: Op, x: Value, upscale_factor: int) -> Value:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor

    DepthToSpace in its order of channel, row, column; other numbers of batch axes are made one.
    """
    if upscale_factor == 1:
        return x
    leading = op.sizes(x)[:-3]
    if len(leading) == 1:
        return op.DepthToSpace(x, blocksize=upscale_factor, mode="CRD")
    shuffled = op.DepthToSpace(
        op.reshape(x, [product(leading), *op.sizes(x)[-3:]]), blocksize=upscale_factor, mode="CRD"
    )
    return op.reshape(op.typed(shuffled, [product(leading), *op.out.sizes[-3:]]), op.out.sizes)


@lowering(aten.pixel_unshuffle.default)
def pixel_unshuffle(op: Op, x: Value, downscale_factor: int) -> Value:
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor

    The rows and columns of each block are axes of their own, which move behind the channels: SpaceToDepth has its
    channels in another order. Sizes that the factor does not divide fail at Reshape, as in PyTorch.
    """
    if downscale_factor == 1:
        return x
    *leading, channels, _, _ = op.sizes(x)
    *_, height, width = op.out.sizes
    blocks = op.reshape(x, [product(leading), channels, height, downscale_factor, width, downscale_factor])
    return op.reshape(op.Transpose(blocks, perm=[0, 1, 3, 5, 2, 4]), op.out.sizes)
