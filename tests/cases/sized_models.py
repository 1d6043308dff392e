"""Small models whose Python or whose ops decide something by the sizes of their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Rows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        return y * torch.arange(4.0).unsqueeze(1)


class SizeEquals(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 4:
            return x + 1
        raise ValueError("4 rows")


class LoopOverSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x[0]
        for i in range(1, x.shape[0]):
            if i > 9:
                break
            total = total * 0.5 + x[i]
        return total


class Entries(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        halves = {}
        for i in range(x.shape[0]):
            halves[i] = x[i] * 0.5
        return torch.stack(list(halves.values()))


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(7, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.get_buffer("table")


class PositionsUpTo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.randn(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        return x + self.get_buffer("table")[:length]


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 8:
            return x[:8]
        return x * 2


class Added(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.exp() + y


class Doubled(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        twice = torch.cat([x, x])
        return twice * y


class Groups(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(-1, 4, x.shape[1]).sum(1)


class Parity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[0] // 2
        if x.shape[0] % 2 == 0:
            return x[:half] + x[half:]
        return x[: half + 1]


class OneRow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            return x - 1
        return x * 2


class FirstTwo(nn.Module):
    """The number of rows of a slice."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum(0) * len(x[:2])


class Squeezed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x[:, :1].cos()
        return y.squeeze()


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 5, 8, stride=8)
        self.positions = nn.Parameter(torch.randn(1, 16, 5))

    def forward(self, x: Tensor) -> Tensor:
        patches = self.embed(x).flatten(2).transpose(1, 2)
        return patches + self.positions


class Windows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        cut = x.view(batch, height // 7, 7, width // 7, 7, channels)
        return cut.transpose(2, 3)


class Skip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv1d(3, 4, 2, stride=2)
        self.up = nn.ConvTranspose1d(4, 3, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.up(self.down(x))
        return inner + x


class NotFive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[0] != 5
        return x.sin()


class Together(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[0] + y.shape[0] > 10:
            return x.sum() + y.sum()
        return x.sum() - y.sum()


class Checked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch._check(x.shape[0] % 3 == 0)
        return x + 1


class Starred(nn.Module):
    def forward(self, *xs: Tensor) -> Tensor:
        first = xs[0] + torch.arange(4.0).unsqueeze(1)
        return first.sum() + xs[1].mean(0)


class StarredBranch(nn.Module):
    def forward(self, scale: Tensor, *xs: Tensor) -> Tensor:
        y = xs[1] * scale
        return y + 1 if y.shape[0] < 7 else y - 1


class Keywords(nn.Module):
    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        y = x + 1
        return y + others["mask"]


class Nested(nn.Module):
    def forward(self, batch: dict[str, Any]) -> Tensor:
        x = batch["images"][1]["pixels"]
        return x @ torch.ones(3, 2) + torch.arange(4.0).unsqueeze(1) + batch["scale"]


class Named(NamedTuple):
    left: Tensor
    right: list[Tensor]


class NamedTuples(nn.Module):
    def forward(self, pair: Named) -> Tensor:
        return pair.left @ torch.ones(5, 5) + pair.right[0]


@dataclass
class Batch:
    x: Tensor
    masks: dict[str, Tensor]


class Dataclasses(nn.Module):
    def forward(self, batch: Batch) -> Tensor:
        mask = batch.masks["own"]
        if mask.shape[0] >= 6:
            mask = mask[:5]
        return batch.x.sum() * mask


class Chunks(nn.Module):
    def forward(self, chunks: list[Tensor]) -> Tensor:
        joined = torch.cat(chunks)
        return joined.unflatten(0, (3, -1))


class Times(nn.Module):
    def forward(self, x: Tensor, times: int) -> Tensor:
        y = x + 1
        for turn in range(times):
            if turn > 9:
                break
            y = y * 2
        return y


class Expanded(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return y.expand(6, 3) * x


class Hashed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = len(x)
        return x * {3: 0.5, 4: 2.0}[rows]


class Roots(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        side = int(x.shape[1] ** 0.5)
        return x.reshape(x.shape[0], side, side)


class Pooled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, 2)


class Upsampled(nn.Module):
    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        grown = F.interpolate(x, scale_factor=2, mode="nearest")
        return grown + skip


class WholeWindows(nn.Module):
    """Pads to a multiple of 8 and cuts that off again; what is cut off nothing needs no copy."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, -width % 8, 0, -height % 8)).relu()
        return x[:, :height, :width].contiguous() * 2


class Neighbours(nn.Module):
    """Asks of many sizes less one how its tensors lie in memory, which limits nothing; the slice is told of."""

    def forward(self, x: Tensor) -> Tensor:
        near = F.cosine_similarity(x[1:], x[:-1]).sum() + torch.arange(len(x))[2:].sum()
        return x.T.reshape(x.shape) + near


class Halved(nn.Module):
    """Takes as many positions as the picture of half the height and width has places."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        places = F.avg_pool2d(x, 2).flatten(2).transpose(1, 2)
        return places * positions
