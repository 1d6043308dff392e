"""Rows for exporter/lowering/lowerings/detection.py: those of torchvision's own operators where it is installed."""

from importlib.util import find_spec

import torch

import fxport.fx_passes.boxes  # noqa: F401  # registers the op
from tests.cases.ops import OpCase, f, v

BOXES = v([[0, 0, 4, 4], [1, 0, 4, 4], [0, 1, 5, 4], [6, 6, 9, 9], [6, 6, 9, 8.5], [2, 2, 2, 2], [0, 0, 4, 4]])
SCORES = v([0.5, 0.9, -0.3, 0.4, 0.4, 0.1, 0.5])
REGIONS = v([[0, 0, 0, 4, 4], [1, 1.5, 2, 9, 7.5], [1, -3, -2, 2, 3], [0, 8, 8, 20, 19], [0, -9, -9, -5, -5]])
EMPTY = v([[0.0, 3, 3, 3, 3], [1, 5, 5, 5, 8]])
ANYWHERE = f(6, 5, low=-0.4, high=0.9)  # of the first image; some end before they begin
IMAGES = f(2, 8, 9, 10)
SAMPLED = {"sampling_ratio": (-1, 2), "aligned": (False, True)}
POOLED = {"pooled_height": 2, "pooled_width": 3}
WIDE = (torch.float32, torch.float64)


def _rows() -> tuple[OpCase, ...]:
    """Deformable convolution exists from opset 19 on."""
    import torchvision  # noqa: F401  # registers the ops

    vision = torch.ops.torchvision
    deform = vision.deform_conv2d.default
    image, weight, offset, mask, bias = f(2, 4, 8, 7), f(6, 4, 3, 2), f(2, 12, 4, 6), f(2, 6, 4, 6), f(6)
    split, offsets, none = f(6, 2, 3, 2), f(2, 24, 4, 6), f(2, 1)
    return (
        OpCase(vision.nms.default, BOXES, SCORES, vary={"iou_threshold": (0.1, 0.5, 0.8)}, dtypes=WIDE),
        OpCase(vision.nms.default, f(0, 4), f(0), 0.5),
        OpCase(
            vision.roi_align.default, IMAGES, REGIONS, 0.5, vary=SAMPLED, kwargs=POOLED, dtypes=WIDE, opsets=(18, 21)
        ),
        OpCase(vision.roi_align.default, IMAGES, ANYWHERE, 9.0, 2, 3, -1, False, dynamic="n 8 h w, k"),
        OpCase(vision.roi_align.default, IMAGES, ANYWHERE, 9.0, 2, 3, 2, True, dynamic="n 8 h w, k"),
        OpCase(vision.roi_align.default, IMAGES, EMPTY, 1.0, 2, 3, vary=SAMPLED),
        OpCase(vision.roi_align.default, IMAGES, f(0, 5), 0.5, 2, 3, -1, True),
        OpCase(vision.ps_roi_align.default, IMAGES, REGIONS, 0.5, 2, 2, vary={"sampling_ratio": (-1, 2)}),
        OpCase(vision.ps_roi_align.default, IMAGES, ANYWHERE, 9.0, 2, 2, 2, dynamic="n 8 h w, k"),
        OpCase(vision.roi_pool.default, IMAGES, REGIONS, 0.5, 2, 3, dtypes=WIDE),
        OpCase(vision.roi_pool.default, IMAGES, ANYWHERE, 9.0, 2, 2, dynamic="n 8 h w, k"),
        OpCase(vision.roi_pool.default, IMAGES, EMPTY, 1.0, 2, 3),
        OpCase(vision.roi_pool.default, IMAGES, f(0, 5), 0.5, 2, 3),
        OpCase(
            deform,
            image,
            weight,
            offset,
            mask,
            bias,
            2,
            1,
            1,
            0,
            1,
            1,
            1,
            1,
            True,
            since=19,
            dynamic="n 4 8 7, 6, n, n",
        ),
        OpCase(deform, image, split, offsets, none, bias, 2, 1, 1, 0, 1, 1, 2, 2, False, since=19),
    )


NMS = torch.ops.fxport.batched_nms.default
KINDS = v([1, 1, 7, 7, 1, 1, 7])
OWN = (
    OpCase(NMS, BOXES, SCORES, KINDS, vary={"threshold": (0.1, 0.5, 0.8)}, dtypes=WIDE),
    OpCase(NMS, BOXES, SCORES, v([0, 0, 0, 0, 0, 0, 0]), 0.3, dynamic="n 4, n, n"),
    OpCase(NMS, f(0, 4), f(0), v([], torch.int64), 0.5),
    OpCase(NMS, f(0, 4), f(0), v([], torch.int64), 0.5, dynamic="n 4, n, n"),
)

CASES = (*OWN, *(_rows() if find_spec("torchvision") else ()))
