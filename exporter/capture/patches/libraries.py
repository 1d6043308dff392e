"""Functions of other libraries that run Python over data, box by box, replaced by formulas that give the same.

They decide on how many boxes or edges there are, and loop over them. Nothing is imported for it: a library that is not
loaded is not used by the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

import fxport.fx_passes.boxes  # noqa: F401  # registers the op


@contextmanager
def library_functions_rewritten() -> Iterator[None]:
    """Replace the functions of REWRITES wherever a module has imported them."""
    instead = {id(function): new for function, new in _loaded()}
    with ExitStack() as stack:
        for module in list(sys.modules.values()) if instead else ():
            for name, value in list(vars(module).items()):
                if id(value) in instead:
                    stack.enter_context(mock.patch.object(module, name, instead[id(value)]))
        yield


def _loaded() -> Iterator[tuple[Any, Callable[..., Any]]]:
    for name, new in REWRITES.items():
        module, _, attribute = name.rpartition(".")
        function = getattr(sys.modules.get(module), attribute, None)
        if function is not None:
            yield function, new


def _batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    return torch.ops.fxport.batched_nms(boxes, scores, idxs, float(iou_threshold))


def _paste_masks_in_image(masks: Tensor, boxes: Tensor, img_shape: tuple[Any, Any], padding: int = 1) -> Tensor:
    """Resize each mask [n, 1, m, m] to its box [x1, y1, x2, y2], in a picture [n, 1, height, width] of zeros.

    To resize bilinearly is a product with a matrix on either side, and a box chooses the rows of the matrices.
    """
    side = masks.shape[-1]
    padded = torch.nn.functional.pad(masks[:, 0], (padding,) * 4)
    half = (boxes[:, 2:] - boxes[:, :2]) * 0.5 * ((side + 2 * padding) / side)
    centre = (boxes[:, 2:] + boxes[:, :2]) * 0.5
    first, last = (centre - half).to(torch.int64), (centre + half).to(torch.int64)
    across, down = (
        _resizing(length, first[:, axis], last[:, axis], padded)
        for axis, length in ((0, img_shape[1]), (1, img_shape[0]))
    )
    return (down @ padded @ across.transpose(1, 2))[:, None]


def _resizing(length: Any, first: Tensor, last: Tensor, masks: Tensor) -> Tensor:
    """Return [n, length, m]: the weight of each place of a mask in each place of the picture, 0 beyond its box."""
    m = masks.shape[-1]
    place = torch.arange(length, device=masks.device)
    taken = (place - first[:, None] + 0.5).to(masks.dtype)
    extent = (last - first + 1).clamp(min=1)[:, None]
    source = (taken * (m / extent.to(masks.dtype)) - 0.5).clamp(min=0, max=m - 1)
    weights = (1 - (source[..., None] - torch.arange(m, device=masks.device)).abs()).clamp(min=0)
    inside = (place >= first[:, None]) & (place <= last[:, None])
    return weights * inside[..., None]


def _use_segment_matmul_heuristic(**sizes: int) -> bool:
    """Return which of two equal computations is faster, by the largest group of edges; a graph keeps the loop."""
    return False


REWRITES: Mapping[str, Callable[..., Any]] = {
    "torchvision.ops.boxes.batched_nms": _batched_nms,
    "torch_geometric.backend.use_segment_matmul_heuristic": _use_segment_matmul_heuristic,
    "torchvision.models.detection.roi_heads.paste_masks_in_image": _paste_masks_in_image,
}
"""By the full name of what a model would call."""
