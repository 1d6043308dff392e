"""Numbers as Python has them: kinds that branches merge, powers, truth values, sizes computed in floats."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import COLUMNS, FLAT, ROWS, SIZES, Inputs, Row, drawn, of


class IntOrFloat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = (x > 0).sum()
        if x.sum() > 0:
            n = 0.5
        return x * n


class NumberOrNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = 1
        if x.sum() > 0:
            n = 2.5
        return x * n


class TruthOrNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = True
        if x.sum() > 0:
            n = 3
        return x * (n + n)


class KindOfTheOutput(nn.Module):
    """The dtype of the output depends on the data."""

    def forward(self, x: Tensor) -> Tensor:
        counts = (x > 0).to(torch.int64)
        n = 2
        if x.sum() > 0:  # makes it a float
            n = 0.5  # makes it a float
        return counts * n  # makes it a float


class TensorOrTensor(nn.Module):
    """Two dtypes of one name that make one output."""

    def forward(self, x: Tensor) -> Tensor:
        y = x > 0
        if x.sum() > 0:  # joins two dtypes
            y = x
        return y  # joins two dtypes


class NegativePower(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for t in range(x.shape[0]):
            total = total + x[t] * 2**-t
        return total


class PowerOfANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for t, row in enumerate(x):
            total = total + row * 0.5**t + t**2 * (t / 4)
        return total


class TruthAdded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = bool(x[0] > 0)
        second = bool(x[1] > 0)
        return x * (first + second + (x.shape[0] > 2))


class TruthCounted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        count = 0
        for row in x:
            count += bool(row.sum() > 0)
        return x * count


class FloorOfNegatives(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for t in range(x.shape[0]):
            total = total + x[t] * ((t - 3) // 2) + (t - 4) % 3 + (t - 5) // -2 + (5 - t) % -3
        return total


class FloorOfData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = int(x[0] * 10)
        return x * (k // 3) + k % 3 + (-k) // 4 + round(k / 4)


class LeastOfData(nn.Module):
    """An integer, though it comes from a float: the dtype of the output shows it."""

    def forward(self, x: Tensor) -> Tensor:
        k = int(x[0].abs() * 10)
        return x.to(torch.int64) * max(k, 2) + min(k + 1, 3)


class Rounded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        return x * round(n / 2) + round(n * 2.675, 2) + math.floor(-n / 2) + math.trunc(-n / 2)


class Accumulated(nn.Module):
    """A float that is added up, and an int that becomes one."""

    def forward(self, x: Tensor) -> Tensor:
        total = 0
        scale = 1
        for row in x:
            total += 0.1
            scale *= 2
            scale /= 3
            x = x + row * total * scale
        return x


class DivisionInAWhile(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = 100
        while x.sum() < n:
            n = n / 3
            x = x + 1
        return x * n


class FloatSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        return x[:, : int(n * 0.29 * 100) // 100] * math.ceil(n * 0.1 * 10) + int(0.7 * n + 0.3 * n)


class SizeInTurns(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x.sum(1)
        for step in range(int(x.shape[1] * 0.29 * 10)):
            total = total + step * 0.1
        return total


class MinAndMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        top = 0.0
        for row in x:
            top = max(top, float(row.max()))
            x = x * min(1, top)
        return x + top


class NumberOfAnIndex(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = 0
        if x.sum() > 0:
            k = 2
        return x[k] + x[: k + 1].sum()


NUMBERS: tuple[tuple[Tensor, ...], ...] = tuple((drawn(2, n, seed=n),) for n in (7, 16, 25, 38, 1, 100))
"""[2, n] at sizes for which products with fractions round differently from their real values."""


class ItemIsItself(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        v = x.mean().item()
        if v != v:
            return torch.zeros_like(x)
        return x - v


class ItemNotAbove(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        v = x.mean().item()
        if not v > 0:
            return torch.ones_like(x)
        return torch.zeros_like(x)


class ItemNotAboveOrLarge(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        v = float(x.mean())
        if not v >= 0 or v > 5:
            return torch.ones_like(x)
        return x * v


class ItemNotBelowAsANumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        small = not x.mean().item() > 0
        return x * small + (1 if small else 2)


class ExtremesOfItems(nn.Module):
    """Python's `max` and `min` keep the first where a comparison is false, as with NaN."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        v, w = x.mean().item(), x.sum().item()
        ones = torch.ones(1)
        return (
            ones * max(0.0, v),
            ones * max(v, 0.0),
            ones * min(1, v),
            ones * min([v, w, 1.0]),
            ones * max(-1.0, abs(v)),
        )


class KnownOfNumbersAlone(nn.Module):
    """What holds for all numbers, and not for NaN."""

    def forward(self, x: Tensor) -> Tensor:
        v = x.mean().item()
        if abs(v) >= 0 and v == v:
            return x * 2
        return torch.zeros_like(x)


class AskedByMath(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        v = x.mean().item()
        if math.isnan(v) or math.isinf(v):
            v = 1.0
        return torch.ones(3) * math.copysign(math.fabs(v) + math.hypot(v, 2.0), -1.0)


NANS: Inputs = tuple(
    (torch.tensor(values),) for values in ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [math.nan, 1.0, 2.0], [9.0, 9.0, 9.0])
)


class KindOfTheLargest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        largest = 0
        for each in x:
            largest = max(largest, each.item())
        return torch.tensor(largest)  # is an int if no item is above 0


class KindOfAnArm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        count = 0
        for each in x:
            if each > 0:
                count += 0.5
            else:
                count += 1
        return torch.tensor([count, 1])  # is a float if an item is above 0


class TruthOrTwo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor((x[0].item() > 0) or 2)  # is True, or 2


INFINITE: Inputs = tuple((torch.full((3,), each),) for each in (math.inf, -math.inf))


class BestSoFar(nn.Module):
    """The largest of items, some of which are NaN or minus infinity themselves."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        best, place = float("-inf"), -1
        for i in range(3):
            value = x[i].item()
            if value > best:
                best, place = value, i
        return x * best, torch.tensor(place)


class AnyInfinity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        value = x.sum().item()
        if value == math.inf or value <= -math.inf:
            return x * 0
        return x * 2


CASES = (
    *of(
        "numbers of mixed kinds",
        Row("an int tensor or a float", IntOrFloat, FLAT),
        Row("an int or a float", NumberOrNumber, FLAT),
        Row("True or an int", TruthOrNumber, FLAT),
        Row("a negative power", NegativePower, SIZES, ROWS),
        Row("powers and quotients of an index", PowerOfANumber, SIZES, ROWS),
        Row("truth values that are added", TruthAdded, FLAT),
        Row("truth values that are counted", TruthCounted, SIZES, ROWS),
        Row("// and % of negatives", FloorOfNegatives, SIZES, ROWS),
        Row("// and % of data", FloorOfData, FLAT),
        Row("the least of an int of data", LeastOfData, FLAT),
        Row("an int that becomes a float", Accumulated, SIZES, ROWS),
        Row("an int that a while divides", DivisionInAWhile, FLAT),
        Row("min and max", MinAndMax, SIZES, ROWS),
        Row("an index that data decides on", NumberOfAnIndex, FLAT),
        Row("the largest of ints and floats", KindOfTheLargest, FLAT, None, "# is an int if"),
        Row("a fraction in one arm", KindOfAnArm, FLAT, None, "# is a float if"),
        Row("a truth value or a number", TruthOrTwo, FLAT, None, "# is True, or 2"),
        Row("a dtype that data decides on", KindOfTheOutput, FLAT, None, "# makes it a float"),
        Row("two dtypes of one name", TensorOrTensor, FLAT, None, "# joins two dtypes"),
    ),
    *of(
        "sizes computed in floats",
        Row("int, ceil and sums of products", FloatSize, NUMBERS, COLUMNS),
        Row("turns of a loop", SizeInTurns, NUMBERS, COLUMNS),
        Row("rounded", Rounded, SIZES, ROWS),
    ),
    *of(
        "items that may be NaN",
        Row("compared with itself", ItemIsItself, NANS),
        Row("not above", ItemNotAbove, NANS),
        Row("not above, or large", ItemNotAboveOrLarge, NANS),
        Row("not above, as a number", ItemNotBelowAsANumber, NANS),
        Row("the larger one", ExtremesOfItems, NANS),
        Row("what holds for all numbers", KnownOfNumbersAlone, NANS),
        Row("asked by math", AskedByMath, NANS),
        Row("above minus infinity", BestSoFar, (*NANS, *INFINITE)),
        Row("infinite", AnyInfinity, (*NANS, *INFINITE)),
    ),
)
