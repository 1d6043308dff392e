"""Whole numbers that 64 bits do not hold: compared with numbers of the data and with sizes, and computed with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, of


class Below(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        k = int(x[0])
        return (
            x * 2 if k < 2**63 else x,
            x * 3 if k >= 10**20 else -x,
            x * 4 if k != 2**64 else x,
            x * 5 if k > -1e30 else x,
            x * 6 if -(2**63) <= k < 1e19 else x,
        )


class Least(nn.Module):
    """Search for the least number from one that is larger than all."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        best = 2**63
        for t in range(3):
            k = int(x[t])
            if k < best:
                best = k
        return torch.tensor(best), torch.tensor(max(min(int(x[0]), 10**20), -(10**30)))


class OfSizes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        n = x.shape[0]
        return x * min(n, 2**63), x * (n < 2**63), x * max(n, -(10**20))


class Masked(nn.Module):
    """A hash of 64 bits."""

    def forward(self, x: Tensor) -> Tensor:
        k = int(x[0])
        return torch.tensor((k & 0xFFFFFFFFFFFFFFFF) >> 1)  # 64 bits


class Remainder(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = int(x[0])
        return torch.tensor(k % 2**64)  # of 2**64


class CubeBelow(nn.Module):
    """The cube of a number of the data is beyond 64 bits itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x * min(int(x[0]) ** 3, 2**63)  # a cube


INTS: Inputs = tuple((torch.tensor(each),) for each in ([3, -2, 5], [-7, 2, 3], [2**40, 5, -(2**62)], [2**62, 1, 2]))

CASES = of(
    "whole numbers beyond 64 bits",
    Row("compared with data", Below, INTS),
    Row("the least of data", Least, INTS),
    Row("compared with sizes", OfSizes, SIZES, ROWS),
    Row("a mask", Masked, INTS, None, "# 64 bits"),
    Row("a cube", CubeBelow, INTS, None, "# a cube"),
    Row("a remainder", Remainder, INTS, None, "# of 2**64"),
)
