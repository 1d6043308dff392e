"""Python's garbage collector is left as it was found."""

from __future__ import annotations

import gc

import pytest
import torch

import fxport
from fxport.exporter.pipeline.garbage import THRESHOLDS, rare_collections


class Failing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("before", "within"), [((700, 10, 10), THRESHOLDS), ((0, 10, 10), (0, 10, 10)), ((10**6, 30, 5), (10**6, 30, 20))]
)
def test_thresholds_are_restored(before: tuple[int, int, int], within: tuple[int, int, int]) -> None:
    held = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        with pytest.raises(fxport.ExportError):
            fxport.export(Failing(), (torch.ones(2),))
        assert gc.get_threshold() == before
        with rare_collections():
            assert gc.get_threshold() == within
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*held)
