"""Branches on the sizes of inputs: each way is right at the sizes that take it, not at those of the example alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, Inputs, Row, drawn, of


class PaddedToEven(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] % 2:
            x = F.pad(x, (0, 0, 0, 1), mode="constant", value=1.0)
        return x.reshape(x.shape[0] // 2, -1)


class PaddedOrCut(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n > 6:
            return x[:6]
        elif n < 6:
            return torch.cat([x, x.new_zeros(6 - n, 4)])
        return x


class Periods(nn.Module):
    """A series that is padded to whole periods, and cut to its own length at the end."""

    def forward(self, x: Tensor) -> Tensor:
        steps, period = x.shape[0], 4
        if steps % period != 0:
            length = (steps // period + 1) * period
            padded = torch.cat([x, torch.zeros([length - steps, x.shape[1]])])
        else:
            length, padded = steps, x
        grid = padded.reshape(length // period, period, -1).permute(2, 0, 1)[None]
        grid = F.avg_pool2d(grid, 3, 1, 1)[0].permute(1, 2, 0)
        return grid.reshape(-1, x.shape[1])[:steps] + x


class Aligned(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        if x.shape[0] < y.shape[0]:
            y = y[: x.shape[0]]
        elif x.shape[0] > y.shape[0]:
            x = x[: y.shape[0]]
        return x + y


class Upsampled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        up = F.interpolate(F.max_pool2d(x, 2), scale_factor=2)
        if up.shape != x.shape:
            up = F.interpolate(up, size=x.shape[2:])
        return torch.cat([x, up], 1)


class ThenAsked(nn.Module):
    """An image is padded to patches, and what comes next asks PyTorch about the sizes that it then has."""

    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.then = then

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        if width % 4 != 0:
            x = F.pad(x, (0, 4 - width % 4))
        if height % 4 != 0:
            x = F.pad(x, (0, 0, 0, 4 - height % 4))
        return self.then(F.avg_pool2d(x, 2))


def attended(x: Tensor) -> Tensor:
    tokens = x.flatten(2).transpose(1, 2)
    return F.scaled_dot_product_attention(tokens, tokens * 2, tokens)


def stretched(mode: str) -> Callable[[Tensor], Tensor]:
    """Interpolate to twice the size, corners onto corners."""
    return lambda x: F.interpolate(x, [2 * size for size in x.shape[2:]], mode=mode, align_corners=True)


AFTER_PATCHES: dict[str, Callable[[Tensor], Tensor]] = {
    "the average of a line": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 1),
    "the average of an image": lambda x: F.adaptive_avg_pool2d(x, 1),
    "averages of an image": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "the average of a body": lambda x: F.adaptive_avg_pool3d(x[:, None], 1),
    "attention": attended,
    "a line stretched": lambda x: stretched("linear")(x.mean(2)),
    "an image stretched": stretched("bilinear"),
    "an image stretched by cubes": stretched("bicubic"),
    "patches of an image": lambda x: F.unfold(x, 2, padding=1, stride=2),
    "an image of its patches": lambda x: F.fold(F.unfold(x, 2), x.shape[2:], 2),
    "a body stretched": lambda x: stretched("trilinear")(x[:, None]),
}


class MadeSquare(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        if height != width:
            side = max(height, width)
            x = F.pad(x, (0, side - width, 0, side - height))
        return x + x.transpose(-1, -2)


class AsLongAsBefore(nn.Module):
    """Strided convolutions, whose result is cut or padded to the length of the input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.down, self.up = nn.Conv1d(4, 6, 4, 2), nn.ConvTranspose1d(6, 4, 4, 2)

    def forward(self, rows: Tensor) -> Tensor:
        x = rows.transpose(0, 1)[None]
        if x.shape[-1] < 4:
            x = F.pad(x, (0, 4 - x.shape[-1]))
        y = self.up(self.down(x))
        if y.shape[-1] > x.shape[-1]:
            y = y[..., : x.shape[-1]]
        elif y.shape[-1] < x.shape[-1]:
            y = F.pad(y, (0, x.shape[-1] - y.shape[-1]))
        return x + y


class MaskThatFits(nn.Module):
    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        mask = self.mask[:n, :n] if n <= 6 else torch.tril(torch.ones(n, n))
        return (x @ x.t()).masked_fill(mask == 0, float("-inf")).softmax(-1) @ x


class EvenFromTheFirst(nn.Module):
    """Layers that pad: behind the first of them no size is odd."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
            if x.shape[0] % 2:
                x = F.pad(x, (0, 0, 0, 1))
        return x


class Nested(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n < 3:
            return x * 2
        elif n < 6:
            return x - 1 if n % 2 else x + 1
        return x.flip(0)


class Ranked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[0] * 3 if x.shape[0] == 1 else x.std(0)


class Matched(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        match x.shape[0]:
            case 1:
                return x * 5
            case 4 | 5:
                return x * 2
            case _:
                return x


class Collatz(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[0]
        following = n // 2 if n % 2 == 0 else 3 * n + 1
        return x * following, torch.tensor(following)


class Largest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = 3 if x.shape[0] > 5 else 2
        return x.topk(min(k, x.shape[0]), 0)[0]


class Turned(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > x.shape[1]:
            return x.transpose(0, 1).contiguous() * 2
        return x


class WritesToItsInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 5:
            x.mul_(2)
        return x + 1


class Halved(nn.Module):
    """Calls itself until only the size tells: no branch of a graph does."""

    def halved(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n <= 1:
            return x
        return torch.cat([self.halved(x[: n // 2]) * 2, self.halved(x[n // 2 :])])

    def forward(self, x: Tensor) -> Tensor:
        return self.halved(x)


def decided_by(test: Callable[[Tensor], bool]) -> Callable[[], nn.Module]:
    class Decided(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if test(x):
                return x * 2
            return x * 3

    return Decided


class PositionsThatFit(nn.Module):
    """A table of positions, drawn to the sizes unless both are its own; the second is asked for where the first is."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(drawn(1, 1, 3, 3, seed=2))

    def forward(self, x: Tensor) -> Tensor:
        x = F.avg_pool2d(x, 2)
        if x.shape[2:] != (3, 3):
            return x + F.interpolate(self.table, size=x.shape[2:], mode="bilinear")
        return x + self.table


SIZES: Inputs = tuple((drawn(n, 4),) for n in (4, 5, 1, 8, 7, 2, 17))
PAIRS: Inputs = tuple((drawn(n, 4), drawn(m, 4, seed=1)) for n, m in ((4, 6), (6, 4), (3, 3), (1, 5), (5, 1)))
IMAGES: Inputs = tuple((drawn(1, 1, *sizes),) for sizes in ((4, 6), (5, 7), (4, 7), (3, 6), (9, 8)))
SQUARES: Inputs = tuple((drawn(1, 1, *sizes),) for sizes in ((8, 8), (8, 9), (7, 12), (5, 5), (16, 3)))
TABLES: Inputs = tuple((drawn(*sizes),) for sizes in ((8, 12), (1, 5), (2, 2), (5, 1), (1, 1), (20, 7)))
GRIDS: Inputs = tuple((drawn(1, 1, *sizes),) for sizes in ((6, 4), (6, 6), (7, 6), (4, 7), (2, 9), (12, 11)))
IN_2D = ({2: "h", 3: "w"},)
BOTH = ({0: "n", 1: "m"},)

CASES = of(
    "branches on sizes",
    Row("padded to an even number", PaddedToEven, tuple(each for each in SIZES if len(each[0]) > 1), ROWS),
    Row("padded or cut", PaddedOrCut, SIZES, ROWS),
    Row("whole periods", Periods, SIZES, ROWS),
    Row("two inputs of different lengths", Aligned, PAIRS, ({0: "n"}, {0: "m"})),
    Row("made as large as what it is joined with", Upsampled, IMAGES, IN_2D),
    *(Row(f"patches, then {name}", partial(ThenAsked, then), IMAGES, IN_2D) for name, then in AFTER_PATCHES.items()),
    Row("made square", MadeSquare, SQUARES, IN_2D),
    Row("positions that fit", PositionsThatFit, GRIDS, IN_2D),
    Row("as long as before", AsLongAsBefore, SIZES, ROWS),
    Row("a mask that fits, or a new one", MaskThatFits, SIZES, ROWS),
    Row("in layers, of which the first decides", EvenFromTheFirst, SIZES, ROWS),
    Row("within each other", Nested, SIZES, ROWS),
    Row("a size of one", Ranked, SIZES, ROWS),
    Row("cases of a match", Matched, SIZES, ROWS),
    Row("numbers", Collatz, SIZES, ROWS),
    Row("how many are chosen", Largest, SIZES, ROWS),
    Row("turned by its sizes", Turned, TABLES, BOTH),
    Row("the smaller of two sizes", decided_by(lambda x: min(x.shape) >= 2), TABLES, BOTH),
    Row("the number of elements", decided_by(lambda x: x.numel() > 30), TABLES, BOTH),
    Row("one element", decided_by(lambda x: x.numel() == 1), TABLES, BOTH),
    Row("the sum of two sizes", decided_by(lambda x: x.shape[0] + x.shape[1] > 4), TABLES, BOTH),
    Row("a product of halves", decided_by(lambda x: (x.shape[0] // 2) * (x.shape[1] // 2) == 0), TABLES, BOTH),
    Row("a write to the input", WritesToItsInput, SIZES, ROWS, or_right=True),
    Row("a recursion", Halved, SIZES, ROWS, refused_at="if n <= 1:"),
)
