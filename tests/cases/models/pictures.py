"""Networks for pictures of any height and width: their sizes are rounded and rounded again."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.cases.models import Example, ModelCase

PICTURE = {0: "batch", 2: "height", 3: "width"}


def added(size: int, kernel: int, stride: int) -> int:
    """How much to pad, so that there is an output for every `stride` of the input."""
    return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


class SamePadded(nn.Module):
    """Strided convolutions that pad as TensorFlow does: as much as each picture needs, by Python's arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        channels = (3, 4, 6, 8, 8)
        pairs = zip(channels, channels[1:], (3, 5, 3, 5), strict=False)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, size, stride=2) for a, b, size in pairs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            height, width = (added(n, conv.kernel_size[0], conv.stride[0]) for n in x.shape[-2:])  # type: ignore[index]
            x = F.pad(x, [width // 2, width - width // 2, height // 2, height - height // 2])
            x = F.relu(conv(x))
        return x.mean((2, 3))


def same_padded() -> Example:
    return Example(SamePadded(), (torch.randn(2, 3, 50, 70),), {}, (PICTURE,))


class Windows(nn.Module):
    """Attention inside of windows, over a map that is padded to whole windows, shifted, and cut back."""

    def __init__(self, channels: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.qkv = nn.Linear(channels, 3 * channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        w = self.window
        x = F.pad(x, (0, 0, 0, (w - width % w) % w, 0, (w - height % w) % w))
        _, rows, columns, _ = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(batch, rows // w, w, columns // w, w, channels).permute(0, 1, 3, 2, 4, 5)
        q, k, v = self.qkv(x.reshape(-1, w * w, channels)).chunk(3, dim=-1)
        x = F.scaled_dot_product_attention(q, k, v)
        x = x.view(batch, rows // w, columns // w, w, w, channels).permute(0, 1, 3, 2, 4, 5)
        x = torch.roll(x.reshape(batch, rows, columns, channels), (self.shift, self.shift), (1, 2))
        return x[:, :height, :width].contiguous()


class Merge(nn.Module):
    """Joins each four neighbours, after a row or column is added where their number is odd."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(4 * channels, 2 * channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        height, width = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
        return self.reduce(torch.cat([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)], dim=-1))


class ShiftedWindows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.Sequential(Windows(8, 3, 0), Windows(8, 3, 1), Merge(8), Windows(16, 3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(self.patches(x).permute(0, 2, 3, 1))


def shifted_windows() -> Example:
    return Example(ShiftedWindows(), (torch.randn(2, 3, 45, 66),), {}, (PICTURE,))


class Preprocessed(nn.Module):
    """Bytes to a picture of one size, antialiased, and from there to what a classifier is trained on."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(x.float() / 255, (32, 32), mode="bilinear", antialias=True)
        return (x[..., 2:30, 2:30] - 0.5) / 0.2


def preprocessed() -> Example:
    pictures = torch.randint(0, 256, (2, 3, 50, 60), dtype=torch.uint8)
    return Example(Preprocessed(), (pictures,), {}, (PICTURE,))


CASES = tuple(ModelCase(build.__name__, build) for build in (same_padded, shifted_windows, preprocessed))
