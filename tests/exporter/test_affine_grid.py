"""affine_grid with symbolic sizes, also of 1."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.running import assert_same, run_exported

THETA = torch.tensor([[[1.0, 0.2, 0.1], [-0.3, 1.5, 0.4]]])


class Grid(nn.Module):
    """A grid of as many rows as `x` has, `columns` wide."""

    def __init__(self, columns: int, align_corners: bool) -> None:
        super().__init__()
        self.columns, self.align_corners = columns, align_corners

    def forward(self, theta: Tensor, x: Tensor) -> Tensor:
        return F.affine_grid(theta, (1, 1, x.shape[0], self.columns), align_corners=self.align_corners)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid behavior has changed")
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("align_corners", [True, False])
def test_a_size_of_one(columns: int, align_corners: bool) -> None:
    model = Grid(columns, align_corners)
    calls = [(THETA, torch.ones(rows, 2)) for rows in (3, 1, 2)]
    results = run_exported(model, calls, dynamic_shapes=(None, {0: "n"}))
    for call, result in zip(calls, results, strict=True):
        assert_same(result, (model(*call),))
