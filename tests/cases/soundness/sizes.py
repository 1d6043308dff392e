"""Numbers that Python computes of sizes: divisors, bits, factors, places in lists."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.soundness.case import Row, of

COLUMNS = {"x": {1: torch.export.Dim.DYNAMIC}}
BOTH = {"x": {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}}
PICTURE = {"x": {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}}
WIDTHS = tuple((torch.randn(2, size),) for size in (11, 1, 2, 7, 8, 9, 64, 65, 1000))
MATRICES = tuple((torch.randn(*sizes),) for sizes in ((6, 9), (1, 5), (4, 7), (12, 8), (5, 5)))
PICTURES = tuple((torch.randn(1, 2, *sizes),) for sizes in ((43, 51), (8, 9), (16, 24), (99, 17), (5, 7)))


def samples(example: int) -> tuple[tuple[Tensor], ...]:
    return tuple((torch.randn(2, 2, size),) for size in (example, 65, 127, 128, 200, 640))


class PaddedToAPower(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        return F.pad(x, (0, 2 ** math.ceil(math.log2(size)) - size))


class PaddedByBits(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        return F.pad(x, (0, (1 << (size - 1).bit_length()) - size)) * size.bit_length()


class Divided(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        whole = math.gcd(x.shape[1], 6)
        return x.reshape(x.shape[0], -1, whole).sum(2) * math.gcd(*x.shape, 12)


class PaddedToAMultiple(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, math.lcm(x.shape[1], 4) - x.shape[1])) + math.lcm(*x.shape)


class RootOfNumPy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, : int(np.sqrt(x.shape[1]))] * np.sqrt(x.shape[1]) + float(np.sqrt(x.shape[1] / 2))


class AttributesOfASize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[1]
        known = 2 if hasattr(size, "bit_count") and hasattr(size, "to_bytes") else 3
        return x * known + getattr(size, "real", 7) * getattr(size / 2, "imag", 5.0) + getattr(size, "numerator", 9)


class Frames(nn.Module):
    """A loop over the frames of windows, of which the example has one."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        weight = torch.linspace(-1, 1, 256).view(2, 2, 64)
        frames = F.conv1d(x, weight, stride=64) if self.way == "conv1d" else getattr(F, self.way)(x, 64)
        state = frames[..., 0] * 0
        for step in range(frames.shape[-1]):
            state = state * 0.5 + frames[..., step]
        return state


class SqueezedFrames(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool1d(x, 64).squeeze(-1)  # vanishes for one frame


class PlacesInAList(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, [x.shape[1] // 2, -1]] = 7.0
        return y.cumsum(1) + x[[x.shape[0] // 2, 0]].sum()


class DiagonalOfASize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y.diagonal(offset=x.shape[1] - 1).add_(3)
        torch.diagonal(y, -(x.shape[0] // 2)).mul_(2)
        return y


class ByFactors(nn.Module):
    def __init__(self, mode: str, align_corners: bool | None = False) -> None:
        super().__init__()
        self.mode, self.align_corners = mode, align_corners
        self.table = nn.Parameter(torch.arange(105.0).sin().reshape(1, 3, 5, 7))

    def forward(self, x: Tensor) -> Tensor:
        factors = ((x.shape[2] + 0.1) / 5, (x.shape[3] + 0.1) / 7)
        return F.interpolate(self.table, None, factors, self.mode, self.align_corners)  # takes factors


class OwnFactor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        height = x.shape[2]
        return F.interpolate(x, scale_factor=(height + 1.3) / (height + 1), mode="bilinear")


class CausalByASize(nn.Module):
    """Attention that is causal for more than so many queries, as a decoder's is for more than one."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        is_causal = mask is None and x.shape[0] > self.most
        return F.scaled_dot_product_attention(x[None], y[None], y[None], is_causal=is_causal)


class Covariances(nn.Module):
    """Of one row, each is a number and no matrix."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cov(x), torch.corrcoef(x)


TEXTS = tuple((torch.randn(n, 4), torch.randn(m, 4)) for n, m in ((5, 7), (3, 9), (1, 6), (2, 2)))
TEXT = {"x": {0: torch.export.Dim.DYNAMIC}, "y": {0: torch.export.Dim.DYNAMIC}}

CASES = of(
    "numbers of sizes",
    Row("padded to a power of two", PaddedToAPower, WIDTHS, COLUMNS),
    Row("padded by bits", PaddedByBits, WIDTHS, COLUMNS),
    Row("a common divisor", Divided, MATRICES, BOTH),
    Row("a common multiple", PaddedToAMultiple, MATRICES, BOTH),
    Row("covariances", Covariances, ((torch.randn(3, 4),), (torch.randn(1, 4),)), ({0: "n"},), or_right=True),
    Row("a root of NumPy", RootOfNumPy, WIDTHS, COLUMNS),
    Row("attributes of a size", AttributesOfASize, WIDTHS, COLUMNS),
    *(
        Row(
            f"frames, {way}, {size} samples",
            lambda way=way: Frames(way),
            samples(size),
            ({2: "samples"},),
            or_right=True,
        )
        for way in ("max_pool1d", "avg_pool1d", "conv1d")
        for size in (64, 65, 100)
    ),
    Row("squeezed frames", SqueezedFrames, samples(65), ({2: "samples"},), "# vanishes for one frame"),
    Row("places in a list", PlacesInAList, MATRICES, BOTH),
    Row("a diagonal", DiagonalOfASize, MATRICES, BOTH),
    *(
        Row(f"factors, {mode}, corners {corners}", lambda m=mode, c=corners: ByFactors(m, c), PICTURES, PICTURE)
        for mode in ("bilinear", "bicubic")
        for corners in (False, True)
    ),
    Row("factors, nearest", lambda: ByFactors("nearest", None), PICTURES, PICTURE, "# takes factors"),
    Row("a factor that keeps the size", OwnFactor, PICTURES, PICTURE),
    Row("causal for more than one query", lambda: CausalByASize(1), TEXTS, TEXT, or_right=True),
    Row("causal for more than four queries", lambda: CausalByASize(4), TEXTS, TEXT, or_right=True),
)
