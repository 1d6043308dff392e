"""A model with an operator of its own; `models/custom_onnx.py` says what it is in ONNX."""

import torch
from torch import Tensor, nn


@torch.library.custom_op("sample::leaky", mutates_args=())
def leaky(x: Tensor, slope: float) -> Tensor:
    return torch.where(x > 0, x, x * slope)


@leaky.register_fake
def _(x: Tensor, slope: float) -> Tensor:
    return torch.empty_like(x)


class Leaky(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return leaky(self.linear(x), 0.125)


def model():
    return Leaky().eval(), (torch.randn(4, 8),)
