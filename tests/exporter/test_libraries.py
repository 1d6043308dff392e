"""What stands in the place of other libraries' functions over boxes and edges: equal to what they stand for."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fxport import export
from fxport.exporter.capture.patches.libraries import REWRITES
from tests.running import assert_same, run_exported

MASKS = torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(0))
BOXES = torch.tensor([[2.0, 3, 9, 8], [-3, -2, 4.5, 30], [10, 10, 10.2, 10.1], [0, 0, 19, 14]])


def pasted(mask: Tensor, box: Tensor, height: int, width: int) -> Tensor:
    """A mask with a border of zeros, resized to its box and that grown by as much, in a picture of zeros."""
    padded, grown = F.pad(mask, (1, 1, 1, 1)), mask.shape[-1] + 2
    half, centre = (box[2:] - box[:2]) * 0.5 * (grown / mask.shape[-1]), (box[2:] + box[:2]) * 0.5
    (x, y), (right, bottom) = ((centre + sign * half).long().tolist() for sign in (-1, 1))
    sizes = (max(bottom - y + 1, 1), max(right - x + 1, 1))
    resized = F.interpolate(padded[None], sizes, mode="bilinear", align_corners=False)[0, 0]
    picture = torch.zeros(height + 200, width + 200)
    picture[100 + y : 100 + y + sizes[0], 100 + x : 100 + x + sizes[1]] = resized
    return picture[100 : 100 + height, 100 : 100 + width]


def test_masks_are_pasted_where_their_boxes_are() -> None:
    name = "torchvision.models.detection.roi_heads.paste_masks_in_image"
    expected = torch.stack([pasted(mask, box, 15, 20) for mask, box in zip(MASKS, BOXES, strict=True)])
    torch.testing.assert_close(REWRITES[name](MASKS, BOXES, (15, 20)), expected[:, None])
    assert REWRITES[name](MASKS[:0], BOXES[:0], (15, 20)).shape == (0, 1, 15, 20)


def test_the_library_itself_agrees() -> None:
    heads = pytest.importorskip("torchvision.models.detection.roi_heads")
    got = REWRITES["torchvision.models.detection.roi_heads.paste_masks_in_image"](MASKS, BOXES, (15, 20))
    torch.testing.assert_close(got, heads.paste_masks_in_image(MASKS, BOXES, (15, 20)))


def test_the_faster_of_two_ways_is_not_chosen_by_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = ModuleType("torch_geometric.backend")
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    backend.use_segment_matmul_heuristic = lambda num_segments, max_segment_size: max_segment_size > num_segments  # type: ignore[attr-defined]  # as the library has it

    class Relations(nn.Module):
        def forward(self, x: Tensor, kind: Tensor) -> Tensor:
            sizes = {"num_segments": 3, "max_segment_size": int(kind.bincount().max())}
            return x + x if backend.use_segment_matmul_heuristic(**sizes) else x * 2

    program = export(Relations(), (torch.randn(6, 2), torch.zeros(6, dtype=torch.int64)))
    assert [node.op_type for node in program.model.graph] == ["Mul"]


BESIDE = """
class Doubling(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1
"""


def test_a_library_whose_folder_begins_like_that_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its branches on data are kept, as those of any library: torch_geometric stands beside torch."""
    path = f"{Path(torch.__file__).parent}_beside/layers.py"
    monkeypatch.setitem(linecache.cache, path, (len(BESIDE), None, BESIDE.splitlines(keepends=True), path))
    names: dict[str, Any] = {"torch": torch, "__name__": "torch_beside.layers"}
    exec(compile(BESIDE, path, "exec"), names)
    model, calls = names["Doubling"](), [(torch.ones(3),), (-torch.ones(5),)]
    for call, result in zip(calls, run_exported(model, calls, dynamic_shapes=({0: "n"},)), strict=True):
        assert_same(result, [model(*call)])
