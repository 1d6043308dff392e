"""Branches and loops of which gradients are taken, and what the model reads and changes behind them.

For a gradient PyTorch runs the body of a loop once more, where that is asked for.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, Inputs, Row, drawn, of


class HalvedUntilSmall(nn.Module):
    @torch.enable_grad()
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().clone().requires_grad_()
        y, turns = x * 1, 0
        while y.norm() > 0.5:
            y = y * 0.5
            turns += 1
        return torch.autograd.grad(y.sum(), x)[0], y.detach() * turns


class ChangedBehindTheLoop(nn.Module):
    """Count the calls, and change what the turns changed, between the loop and its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    @torch.enable_grad()
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().clone().requires_grad_()
        y, turns = x * 1, 0
        while y.norm() > 0.5:
            y = y * 0.5
            turns += 1
        loss = (y * y).sum()
        self.calls = self.calls + turns
        y, turns = y + 1, turns + 5
        gradient = torch.autograd.grad(loss, x)[0]
        return gradient, (y.detach() + self.calls) * turns


class Either(nn.Module):
    @torch.enable_grad()
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().clone().requires_grad_()
        y = x * 1
        if x.sum() > 0:
            y = y * x
        return torch.autograd.grad(y.sum(), x)[0], y.detach()


SCALED: Inputs = tuple((drawn(n, 4, seed=n) * scale,) for n, scale in ((3, 1.0), (5, 30.0), (2, 0.01), (1, 4.0)))

CASES = of(
    "gradients of control flow",
    Row("a loop that is read behind its gradient", HalvedUntilSmall, SCALED, ROWS),
    Row("changes between a loop and its gradient", ChangedBehindTheLoop, SCALED, ROWS),
    Row("a branch that is read behind its gradient", Either, SCALED, ROWS),
)
