"""A model that fixes a dimension that was to vary: the finding is at the line that does it."""

import torch
from torch import Tensor, nn


class Pinned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 12, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.position


def model():
    return Pinned().eval(), (torch.randn(2, 12, 4),), {}, {"x": {0: "batch", 1: "steps"}}
