"""Suppression of overlapping boxes, class by class, as one op: how many boxes are left only a run can tell."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("fxport::batched_nms", mutates_args=(), tags=(torch.Tag.dynamic_output_shape,))
def batched_nms(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    """`torchvision.ops.batched_nms`: which boxes [n, 4] to keep, best first, so that none of a class overlap.

    A box is [x1, y1, x2, y2]. It goes if it has more than the threshold in common with a better one of its class, as
    the part of what both cover.
    """
    order = scores.argsort(descending=True, stable=True)
    boxes, classes = boxes[order], classes[order]
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    sides = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - torch.maximum(
        boxes[:, None, :2], boxes[None, :, :2]
    )
    shared = sides.clamp(min=0).prod(2)
    overlap = (shared / (areas[:, None] + areas - shared) > threshold) & (classes[:, None] == classes)
    kept = torch.ones_like(order, dtype=torch.bool)
    for place in range(len(order)):
        if kept[place]:
            kept[place + 1 :] &= ~overlap[place, place + 1 :]
    return order[kept]


@batched_nms.register_fake
def _kept(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    return classes.new_empty((torch.library.get_ctx().new_dynamic_size(),), dtype=torch.int64)
