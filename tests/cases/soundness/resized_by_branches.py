"""Sizes that branches on the sizes of inputs compute, as code that prepares images and sounds does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.soundness.case import COLUMNS, ROWS, Inputs, Row, drawn, of


class ShortSide(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape
        if width < height:
            to = (8 * height // width, 8)
        else:
            to = (8, int(8 * width / height))
        return F.interpolate(x[None, None], to)


class ShortSideByReturns(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape
        if height > width:
            return F.interpolate(x[None, None], (8 * height // width, 8))
        return F.interpolate(x[None, None], (8, 8 * width // height))


class LongSideAtMost(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape
        scale = 1.0
        if max(height, width) > 8:
            scale = 8 / max(height, width)
        return F.interpolate(x[None, None], (int(height * scale), int(width * scale)))


class CutOrRepeated(nn.Module):
    """A sound of eight samples: from the middle of a longer one, or a shorter one again and again."""

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        if length >= 8:
            start = (length - 8) // 2
            return x[:, start : start + 8]
        return x.repeat(1, 8 // length + 1)[:, :8]


class MiddleOfAnImage(nn.Module):
    """Padded on the sides that are too short, then cut on the others."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape
        if width < 6 or height < 6:
            left, right = ((6 - width) // 2, (7 - width) // 2) if width < 6 else (0, 0)
            top = (6 - height) // 2 if height < 6 else 0
            bottom = (7 - height) // 2 if height < 6 else 0
            x = F.pad(x, (left, right, top, bottom))
            height, width = x.shape
        top, left = round((height - 6) / 2.0), round((width - 6) / 2.0)
        return x[top : top + 6, left : left + 6]


class LossOfTheNext(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        return F.cross_entropy(x[1:], x.new_zeros(n - 1).long()) if n > 1 else x.sum() * 0


class SummedInLogarithms(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[1:].logsumexp(-1) if x.shape[0] > 1 else x.logsumexp(-1) * 0


class LongerThanTrained(nn.Module):
    """Rotary positions, whose base grows beyond a length: of shorter ones its power would be that of a negative one."""

    def forward(self, x: Tensor) -> Tensor:
        n, base = x.shape[0], 100.0
        if n > 6:
            base = base * (2.0 * n / 6 - 1) ** 1.5
        speeds = base ** -(torch.arange(0, 8, 2) / 8)
        return x + torch.outer(torch.arange(n).float(), speeds).cos()


class PowerOfEither(nn.Module):
    """The base is negative in the arm that is taken at some of the sizes."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        if n > 1:
            return x * (n - 2.5) ** 0.5  # complex for two
        return x


class RootAsABound(nn.Module):
    """A bound that only larger sizes have: below, the root is complex, and no whole number is made of it."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        k = int((n - 3) ** 0.5) if n > 3 else 1
        return x[:k]


class RootCompared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        root = (n - 3) ** 0.5 if n > 3 else 1.0
        if root > 1.5:
            return x * root
        return x


class QuotientInOneArm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        return x * (12 // (n - 3)) if n > 3 else x * (n % 2)


class QuotientInBoth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        return x * (12 // (n - 3)) if n != 4 else x  # raises for three


class Divided(nn.Module):
    """The difference of two sizes may be 0, for which Python raises an error."""

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape
        if height > 2:
            return x * (height // (height - width))
        return x


class OthersOfEach(nn.Module):
    """A mask selects as many in each row, which only its content tells."""

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        others = ~torch.eye(n, dtype=torch.bool)
        return (x @ x.t())[others].view(n, -1).logsumexp(1)


class StepOfASize(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, rest, turns, step = torch.zeros_like(x), 1e9, 0, 1 / (x.shape[0] + 1) ** 2
        while rest > 0.01 and turns < 30:
            new = y * 0.5 - step * x
            rest = (new - y).norm().item()
            y = new
            turns += 1
        return y, torch.tensor(turns)


BOTH = ({0: "n", 1: "m"},)
IMAGES: Inputs = tuple(
    (drawn(*sizes),) for sizes in ((9, 7), (7, 9), (5, 5), (4, 13), (20, 3), (6, 6), (2, 2), (1, 4), (12, 12))
)
LINES: Inputs = tuple((drawn(2, n),) for n in (5, 8, 1, 9, 20, 3))
LENGTHS: Inputs = tuple((drawn(n, 4, seed=n),) for n in (4, 9, 1, 7, 6, 30))
WITHOUT_THREE: Inputs = tuple((drawn(n, 4, seed=n),) for n in (5, 4, 9, 2))
SERIES: Inputs = tuple((drawn(n, 4, seed=n),) for n in (4, 1, 2, 3, 9))
DIFFERENT: Inputs = tuple((drawn(*sizes),) for sizes in ((5, 3), (2, 4), (7, 2)))

CASES = of(
    "sizes computed in branches on sizes",
    Row("the short side of an image", ShortSide, IMAGES, BOTH),
    Row("the same by returns", ShortSideByReturns, IMAGES, BOTH),
    Row("the long side at most", LongSideAtMost, IMAGES, BOTH),
    Row("cut or repeated", CutOrRepeated, LINES, COLUMNS),
    Row("the middle of an image", MiddleOfAnImage, IMAGES, BOTH),
    Row("a loss where there is a next one", LossOfTheNext, SERIES, ROWS),
    Row("sums of what may be none", SummedInLogarithms, SERIES, ROWS),
    Row("a power that is real where it is taken", LongerThanTrained, LENGTHS, ROWS),
    Row("a power that is not", PowerOfEither, LENGTHS, ROWS, "# complex for two", or_right=True),
    Row("a root as a bound", RootAsABound, LENGTHS, ROWS, or_right=True),
    Row("a root that is compared", RootCompared, LENGTHS, ROWS, or_right=True),
    Row("a quotient where it is taken", QuotientInOneArm, LENGTHS, ROWS),
    Row("a quotient where it is not", QuotientInBoth, WITHOUT_THREE, ROWS, or_right=True),
    Row("a divisor that may be 0", Divided, DIFFERENT, BOTH, or_right=True),
    Row("others of each row", OthersOfEach, SERIES, ROWS),
    Row("a step of a size", StepOfASize, SERIES, ROWS),
)
