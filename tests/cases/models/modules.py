"""Plain torch.nn models: recurrent nets, a transformer, a U-Net, and modules that write in place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases.models import Example, ModelCase

SERIES = {0: "batch", 1: "time"}


def lstm() -> Example:
    return Example(
        nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True).eval(), (torch.randn(2, 7, 6),), {}, (SERIES,)
    )


def gru() -> Example:
    return Example(nn.GRU(6, 5, num_layers=2, batch_first=True).eval(), (torch.randn(2, 7, 6),), {}, (SERIES,))


def rnn() -> Example:
    return Example(nn.RNN(6, 5, nonlinearity="relu", batch_first=True).eval(), (torch.randn(2, 7, 6),), {}, (SERIES,))


def transformer() -> Example:
    model = nn.Transformer(16, 4, 2, 2, 24, batch_first=True).eval()
    shapes = ({0: "batch", 1: "source"}, {0: "batch", 1: "target"})
    return Example(model, (torch.randn(2, 7, 16), torch.randn(2, 5, 16)), {}, shapes)


class Block(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(x)), inplace=True)


class UNet(nn.Module):
    """Two levels down by pooling, two up by transposed convolution and by bilinear interpolation, with skips."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([Block(3, 8), Block(8, 16)])
        self.middle = Block(16, 16)
        self.up = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.merge = nn.ModuleList([Block(32, 8), Block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self.down[0](x)
        second = self.down[1](F.max_pool2d(first, 2))
        deep = self.up(self.middle(F.max_pool2d(second, 2)))
        deep = self.merge[0](torch.cat([deep, second], dim=1))
        deep = F.interpolate(deep, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.merge[1](torch.cat([deep, first], dim=1)))


def unet() -> Example:
    model = UNet()
    for _ in range(2):  # statistics that are not those of initialization
        model(torch.randn(4, 3, 16, 16))
    return Example(model.eval(), (torch.randn(2, 3, 16, 16),), {}, ({0: "batch"},))


class Slices(nn.Module):
    """Writes into slices of its input's copy, through views of views."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 0] = 1.0
        y[:, 1:3].mul_(2)
        y[..., -1] += y[..., 0]
        y.transpose(0, 1)[2].zero_()
        y[y > 2] = 2.0
        return y.relu_()


def slices() -> Example:
    return Example(Slices(), (torch.randn(3, 5),), {}, ({0: "batch"},))


class Counter(nn.Module):
    """Keeps a running mean and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


def counter() -> Example:
    return Example(Counter(), (torch.randn(3, 4),), {}, ({0: "batch"},))


class Converting(nn.Module):
    """Sees to it that a module is in single precision, as routers of experts do; it is."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.gate = self.gate.to(torch.float32)
        return self.gate(x).softmax(-1)


def converting() -> Example:
    return Example(Converting(), (torch.randn(3, 4),), {}, ({0: "batch"},))


def batch_norm_in_training() -> Example:
    return Example(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train(), (torch.randn(2, 3, 8, 8),), {}, ({0: "batch"},)
    )


CASES = tuple(
    ModelCase(build.__name__, build)
    for build in (lstm, gru, rnn, transformer, unet, slices, counter, converting, batch_norm_in_training)
)
