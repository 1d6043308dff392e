"""Models for planted faults, of layers that those of `faults` lack: for pictures, for words, and for numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.models import Example


class Decoder(nn.Module):
    """Padding, pooling, resizing and their like, as decoders of pictures have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8)
        self.down = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = F.pad(x, (1, 1, 1, 1), mode="reflect")
        y = self.first(y)
        y = self.norm(y)
        y = F.silu(y)
        pooled = F.avg_pool2d(y, 3, stride=2, padding=1)
        y = self.down(y)
        y = self.up(y)
        smooth = F.interpolate(pooled, scale_factor=2.0, mode="bilinear", align_corners=False)
        near = F.interpolate(x, size=(10, 7), mode="nearest")
        y = torch.roll(y, 2, dims=3)
        y = self.last(torch.cat([y, smooth], dim=1))
        y = torch.clamp(y, -0.5, 0.5)
        turned = torch.flip(y, dims=(2,))
        scores = F.softmax(turned, dim=1)
        return scores, near, F.pixel_shuffle(y, 2)


class Reader(nn.Module):
    """Attention written by hand, with the positions counted from the mask. 9 words, 4 heads of 4."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.places = nn.Embedding(16, 16)
        self.query = nn.Linear(16, 16)
        self.key = nn.Linear(16, 16)
        self.value = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.gate = nn.Linear(16, 16)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        order = torch.cumsum(mask, dim=1) - 1
        order = order.clamp(min=0)
        x = self.words(ids)
        x = x + self.places(order)
        x = self.norm(x)
        q = self.query(x).view(2, 9, 4, 4).transpose(1, 2)
        k = self.key(x).view(2, 9, 4, 4).transpose(1, 2)
        v = self.value(x).view(2, 9, 4, 4).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3))
        scores = scores / 2.0
        later = torch.ones(9, 9).triu(diagonal=1)
        scores = scores.masked_fill(later.bool(), -1e4)
        weights = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(weights, v)
        mixed = mixed.transpose(1, 2)
        y = self.out(mixed.reshape(2, 9, 16))
        y = y * torch.sigmoid(self.gate(x))
        picked = torch.gather(y, 1, order.unsqueeze(-1).expand(2, 9, 16))
        rounded = torch.round(picked * 2)
        best = torch.argmax(rounded, dim=-1)
        pooled = (picked * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(pooled, dim=-1), best


class Numbers(nn.Module):
    """Whole numbers of both signs, a branch that few elements take, float16, twelve equal layers, order statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.ModuleList(nn.Linear(6, 6) for _ in range(12))

    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
        bucket = torch.remainder(n, 7)
        halves = torch.div(n, 2, rounding_mode="trunc")
        hashed = n.to(torch.int32) * 1000003
        rest = torch.fmod(x, 0.3)
        steps = torch.floor(rest * 10)
        for layer in self.deep:
            x = x + torch.tanh(layer(x))
        rare = torch.where(x > 4.5, x * 0.5, x + 1)
        soft = torch.softmax(rare.half(), dim=-1)
        top, _ = torch.topk(rest, 2, dim=-1)
        spread = torch.std(x, dim=-1)
        return bucket, halves, hashed, steps, rare, soft, top, spread


def decoder() -> Example:
    return Example(Decoder(), (torch.randn(2, 3, 12, 12),))


def reader() -> Example:
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return Example(Reader(), (torch.randint(1, 30, (2, 9)) * mask, mask))


def numbers() -> Example:
    return Example(Numbers(), (torch.randn(5, 6) * 2, torch.randint(-5000, 5000, (8,))))
