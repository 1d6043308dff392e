"""torchvision's operators: boxes, regions of interest, deformable convolution. They exist once it is imported."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch

import fxport.fx_passes.boxes  # noqa: F401  # registers the op
from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size
from fxport.exporter.lowering.lowerings.regions import Side, averages, column, maxima
from fxport.exporter.lowering.lowerings.windows import numbers, unless

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64
NO_KERNEL_FROM = 22
"""RoiAlign got a new version here, for bfloat16 alone, and ONNX Runtime has no kernel for that one."""

MOST_BOXES = int(np.iinfo(np.int32).max)


@lowering("torchvision.nms.default")
def nms(op: Op, dets: Value, scores: Value, iou_threshold: float) -> Value:
    """torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor

    NonMaxSuppression, for one image and one class. It does not ask which corner of a box is which, nor for the order
    of the axes. It takes float32 alone.
    """
    boxes, marks = op.Unsqueeze(op.cast(dets, FLOAT), [0]), op.Unsqueeze(op.cast(scores, FLOAT), [0, 1])
    chosen = op.NonMaxSuppression(boxes, marks, [MOST_BOXES], [float(iou_threshold)])
    return op.Gather(chosen, 2, axis=1)


@lowering(torch.ops.fxport.batched_nms.default)
def batched_nms(op: Op, boxes: Value, scores: Value, classes: Value, threshold: float) -> Value:
    """fxport::batched_nms(Tensor boxes, Tensor scores, Tensor classes, float threshold) -> Tensor

    NonMaxSuppression has an axis for classes. Here each class is given a score for its own boxes alone; what it keeps
    comes class by class, and is put into the order of the scores, equal ones as they stand.
    """
    marks = op.cast(scores, FLOAT)
    names, _, which, _ = op.Unique(op.cast(classes, INT64), outputs=4)
    number = op.Range(0, op.Squeeze(op.Shape(names), [0]), 1)
    own = op.Equal(op.Unsqueeze(which, [0]), op.Unsqueeze(number, [1]))
    by_class = op.Unsqueeze(op.Where(own, op.Unsqueeze(marks, [0]), op.const(-np.inf, like=marks)), [0])
    lowest = op.const(np.asarray([np.finfo(np.float32).min], np.float32))
    chosen = op.NonMaxSuppression(
        op.Unsqueeze(op.cast(boxes, FLOAT), [0]), by_class, [MOST_BOXES], [float(threshold)], lowest
    )
    kept = op.Gather(chosen, 2, axis=1)
    _, first = op.TopK(kept, op.Shape(kept), largest=0, outputs=2)
    kept = op.Gather(kept, first)
    _, best = op.TopK(op.Gather(marks, kept), op.Shape(kept), outputs=2)
    return op.Gather(kept, best)


@lowering("torchvision.roi_align.default")
def roi_align(
    op: Op,
    x: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: Size,
    pooled_width: Size,
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor

    A region is [image, x1, y1, x2, y2]; RoiAlign takes the image apart from its box.
    """  # noqa: E501
    height, width = numbers([pooled_height, pooled_width], 2, "pooled size")
    if op.opset >= NO_KERNEL_FROM:
        return _aligned_by_parts(op, x, rois, spatial_scale, (height, width), sampling_ratio, aligned)
    return op.RoiAlign(
        x,
        op.Slice(rois, [1], [5], [1]),
        op.cast(op.Gather(rois, 0, axis=1), INT64),
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
        output_height=height,
        output_width=width,
        sampling_ratio=max(sampling_ratio, 0),
        spatial_scale=spatial_scale,
    )


def _aligned_by_parts(
    op: Op,
    x: Value,
    rois: Value,
    spatial_scale: float,
    pooled: tuple[int, int],
    sampling_ratio: int,
    aligned: bool,
) -> Value:
    """RoiAlign as gathers and sums; a region that is not aligned is at least one pixel large."""

    def side(low: int, high: int, bins: int, size: Size) -> Side:
        start, end = (op.Mul(column(op, rois, index), spatial_scale) for index in (low, high))
        if aligned:
            return Side(op.Sub(start, 0.5), op.Sub(end, start), bins, size)
        return Side(start, op.Max(op.Sub(end, start), op.const(1.0, like=rois)), bins, size)

    height, width = op.sizes(x)[2:]
    return averages(op, x, rois, side(2, 4, pooled[0], height), side(1, 3, pooled[1], width), sampling_ratio)


@lowering("torchvision.ps_roi_align.default")
def ps_roi_align(
    op: Op,
    x: Value,
    rois: Value,
    spatial_scale: float,
    pooled_height: Size,
    pooled_width: Size,
    sampling_ratio: int,
) -> tuple[Value, Value]:
    """torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)

    Bin b of n in output channel c looks at input channel c·n + b alone: RoiAlign of all of them, and of its n × n bins
    those on the diagonal. The second result says which channel that is.
    """  # noqa: E501
    height, width = numbers([pooled_height, pooled_width], 2, "pooled size")
    bins, sizes = height * width, op.out.sizes
    every = roi_align(op, x, rois, spatial_scale, height, width, sampling_ratio, True)
    rows = op.reshape(every, [sizes[0], sizes[1], bins * bins])
    y = op.Gather(rows, [bin * (bins + 1) for bin in range(bins)], axis=2)
    channels = op.const(np.arange(int(sizes[1]) * bins).reshape(1, -1, height, width), dtype=op.outs[1].dtype)
    return op.reshape(op.typed(y, [*sizes[:2], bins]), sizes), op.Expand(channels, op.shape(sizes))


@lowering("torchvision.roi_pool.default")
def roi_pool(
    op: Op, x: Value, rois: Value, spatial_scale: float, pooled_height: Size, pooled_width: Size
) -> tuple[Value, Value]:
    """torchvision::roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> (Tensor, Tensor)

    By parts, since ONNX's MaxRoiPool does not give the places of the maxima. Corners are rounded half away from zero,
    and both belong to the region.
    """  # noqa: E501

    def side(low: int, high: int, bins: int, size: Size) -> Side:
        start, end = (_rounded(op, op.Mul(column(op, rois, index), spatial_scale)) for index in (low, high))
        return Side(start, op.Max(op.Add(op.Sub(end, start), 1.0), op.const(1.0, like=rois)), bins, size)

    bins, (height, width) = numbers([pooled_height, pooled_width], 2, "pooled size"), op.sizes(x)[2:]
    y, places = maxima(op, x, rois, side(2, 4, bins[0], height), side(1, 3, bins[1], width))
    return y, op.cast(places, op.outs[1].dtype)


def _rounded(op: Op, value: Value) -> Value:
    """Half away from zero, as C rounds."""
    return op.Mul(op.Sign(value), op.Floor(op.Add(op.Abs(value), 0.5)))


@lowering("torchvision.deform_conv2d.default", since=19)
def deform_conv2d(
    op: Op,
    x: Value,
    weight: Value,
    offset: Value,
    mask: Value,
    bias: Value,
    stride_h: Size,
    stride_w: Size,
    pad_h: Size,
    pad_w: Size,
    dilation_h: Size,
    dilation_w: Size,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Value:
    """torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"""  # noqa: E501
    pads = numbers([pad_h, pad_w], 2, "padding")
    return op.DeformConv(
        x,
        weight,
        offset,
        bias,
        *([mask] if use_mask else []),
        strides=unless(numbers([stride_h, stride_w], 2, "stride"), 1),
        pads=[*pads, *pads],
        dilations=unless(numbers([dilation_h, dilation_w], 2, "dilation"), 1),
        kernel_shape=list(numbers(op.sizes(weight)[2:], 2, "kernel size")),
        group=groups,
        offset_group=offset_groups,
    )
