"""Plain torch.nn models: recurrent nets, a transformer, a U-Net, and modules that write in place."""

from __future__ import annotations

from typing import NamedTuple

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


class Windows(nn.Module):
    """Windows over time between two transposes, as a convolution with weights of its own for each step reads them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x.transpose(1, 2), (3, 0)).unfold(-1, 4, 1).transpose(1, 2)


def windows() -> Example:
    return Example(Windows(), (torch.randn(2, 7, 6),), {}, ({0: "batch", 1: "time"},))


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


def double_precision() -> Example:
    """float64 throughout: layers of which ONNX Runtime has kernels in float32 alone, or with a float32 epsilon."""
    layers = (
        nn.Conv2d(3, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.AvgPool2d(2, 1, 1),
        nn.InstanceNorm2d(4, affine=True),
        nn.ConvTranspose2d(4, 6, 3, 2, groups=2),
        nn.GroupNorm(2, 6),
        nn.AdaptiveAvgPool2d((3, 8)),
        nn.LayerNorm(8),
        nn.RMSNorm(8, eps=1e-3),
    )
    x = torch.randn(2, 3, 9, 11, dtype=torch.float64)
    return Example(nn.Sequential(*layers).double().eval(), (x,), {}, ({0: "batch", 2: "height", 3: "width"},))


class OwnKernels(nn.Module):
    """Convolves each sample with a kernel made from its style, as one convolution of as many groups."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3, 3, 3))
        self.style = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        weight = self.weight * self.style(style)[:, None, :, None, None]
        weight = (weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()).flatten(0, 1)
        y = F.conv2d(x.reshape(1, batch * channels, height, width), weight, padding=1, groups=batch)
        return y.view(batch, -1, height, width)


def own_kernels() -> Example:
    inputs = (torch.randn(2, 3, 6, 7), torch.randn(2, 5))
    return Example(OwnKernels(), inputs, {}, ({0: "batch", 2: "height", 3: "width"}, {0: "batch"}))


class Warped(nn.Module):
    """Coordinates, a warp of the image, and distances, over sizes that PyTorch would like to know."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        height, width = x.shape[-2:]
        rows, columns = torch.linspace(-1, 1, height), torch.linspace(0, width - 1, width)
        theta = torch.tensor([[[0.9, 0.1, 0.0], [-0.1, 1.1, 0.2]]]).expand(x.shape[0], -1, -1)
        warped = F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)
        points = x.flatten(0, 1)
        return warped, rows[:, None] * columns, torch.cdist(points, points)


def warped() -> Example:
    return Example(Warped(), (torch.randn(2, 3, 6, 9),), {}, ({0: "batch", 2: "height", 3: "width"},))


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Named(nn.Module):
    """Takes and gives namedtuples, with Python numbers beside the tensors."""

    def forward(self, pair: Pair) -> tuple[Pair, int, float]:
        return Pair(pair.left + pair.right, pair.right), pair.left.shape[0], pair.left.numel() / 3


def named_tuples() -> Example:
    shapes = (Pair({0: "rows"}, {0: "rows"}),)  # type: ignore[arg-type]  # the same structure, of requests
    return Example(Named(), (Pair(torch.randn(3, 4), torch.randn(3, 4)),), {}, shapes)


class Ensemble(nn.Module):
    """Several linear layers at once, by vmap over their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(lambda weight: F.linear(x, weight))(self.weight).mean(0)


def ensemble() -> Example:
    return Example(Ensemble(), (torch.randn(5, 4),), {}, ({0: "batch"},))


class Chosen(nn.Module):
    """Keeps what is at least 0.7: the float32 next to it is less in float64, where a row fewer is kept."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x[:, 0] >= 0.7] * 2


def chosen() -> Example:
    return Example(Chosen(), (torch.tensor([[0.7], [0.9], [0.2]]),))


CASES = tuple(
    ModelCase(build.__name__, build)
    for build in (
        lstm, gru, rnn, transformer, unet, slices, counter, converting, windows, batch_norm_in_training,
        double_precision, own_kernels, warped, named_tuples, ensemble, chosen,
    )
)  # fmt: skip
