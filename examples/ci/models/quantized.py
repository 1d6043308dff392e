"""A perceptron with int8 weights and 8-bit activations, rounded by hand."""

import torch
from torch import Tensor, nn

STEP = 1 / 16  # of activations


class QuantizedLinear(nn.Module):
    """A linear layer whose weights are int8, with a scale for each output."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        steps = (x / STEP).round().clamp(-128, 127)
        return nn.functional.linear(steps * STEP, self.weight.to(x.dtype) * self.scale, self.bias)


def model():
    layers = nn.Sequential(QuantizedLinear(nn.Linear(16, 32)), nn.ReLU(), QuantizedLinear(nn.Linear(32, 4)))
    return layers.eval(), (torch.randn(3, 16),), {}, ({0: "batch"},)
