"""Writes to what is a view at some sizes and a copy at others, where the usual trace cannot tell at which."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, Inputs, Row, drawn, of


class SelectedRows(nn.Module):
    """With one row, `contiguous` gives the tensor itself; only data tell how many rows are written."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = x + 1
        y = z.t().contiguous()
        y[y[:, 0] > 0, -1] += 5.0
        return z, y


class BesideGradients(nn.Module):
    """Traced below autograd, where the copy of the example is one at all sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = x + torch.func.grad(lambda each: (each**2).sum())(x)
        y = z.t().contiguous()
        y.add_(1)
        return z, y


class BesideGradientsOfCopies(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = x + torch.func.grad(lambda each: (each**2).sum())(x)
        y = z.t().contiguous().clone()
        y.add_(1)
        return z, y


SIZES: Inputs = tuple((drawn(n, 4, seed=n, shift=0.5),) for n in (3, 1, 2, 7))

CASES = of(
    "writes to copies by size",
    Row("selected rows", SelectedRows, SIZES, ROWS, or_right=True),
    Row("beside gradients", BesideGradients, SIZES, ROWS, or_right=True),
    Row("beside gradients, of a clone", BesideGradientsOfCopies, SIZES, ROWS),
)
