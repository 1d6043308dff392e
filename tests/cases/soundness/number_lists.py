"""Lists of numbers from data: of a fixed number, and of as many as a dynamic size has."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import Inputs, Row, of


class Extremes(nn.Module):
    def forward(self, v: Tensor) -> tuple[Tensor, ...]:
        numbers = v.tolist()
        found = max(numbers), min(numbers), max(numbers, default=0), numbers[0], numbers[-1], sum(numbers)
        return tuple(map(torch.tensor, found))


class Sorted(nn.Module):
    def forward(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        numbers = v.tolist()
        return torch.tensor(sorted(numbers)), torch.tensor(sorted(numbers, reverse=True)), torch.tensor(numbers[::-1])


class Searched(nn.Module):
    def forward(self, v: Tensor) -> tuple[Tensor, ...]:
        numbers = v.tolist()
        found = 3 in numbers, 7 not in numbers, numbers.count(1), numbers.count(numbers[0]), numbers.index(max(numbers))
        return tuple(map(torch.tensor, found))


class OneByOne(nn.Module):
    def forward(self, v: Tensor) -> tuple[Tensor, ...]:
        numbers = v.tolist()
        some, halves, even = ([k in {1, 2} for k in numbers], [k / 2 for k in numbers], [k % 2 == 0 for k in numbers])
        return torch.tensor(some), torch.tensor(halves), torch.tensor(even), torch.tensor([3, *v.shape])


class Joined(nn.Module):
    def forward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        starts = [0] + v.tolist()
        return torch.tensor(starts[:-1]), torch.tensor([b - a for a, b in zip(starts[:-1], starts[1:], strict=True)])


class LeftEarly(nn.Module):
    def forward(self, v: Tensor) -> Tensor:
        count = 0
        for k in v.tolist():
            if k in {2}:
                break
            count += 1
        return v[:count]


class Ranges(nn.Module):
    def forward(self, v: Tensor) -> Tensor:
        total = torch.tensor(0)
        for k in v.tolist():
            for j in range(k):
                total = total + j
        return total


class CutOut(nn.Module):
    def forward(self, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        ends = v.tolist()
        return x[ends[0] : ends[-1]], torch.stack([x[k] for k in ends])


class MadeAnew(nn.Module):
    def forward(self, v: Tensor) -> tuple[Tensor, Tensor]:
        kept = [k for k in v.tolist() if k not in {0, 2}]
        return torch.tensor(kept, dtype=torch.int64), torch.tensor(len(kept))


class PerhapsEmpty(nn.Module):
    def forward(self, v: Tensor) -> Tensor:
        kept = [k for k in v.tolist() if k not in {0, 2}]
        return torch.tensor(kept)  # floats, where it is empty


class Different(nn.Module):
    def forward(self, v: Tensor) -> Tensor:
        return torch.tensor(len(set(v.tolist())))  # numbers in a set


class ReadAgain(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        k = n.item()
        return n + 1 if k > 2 else n - 1


class ReadInLoop(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        k, total = n.item(), torch.tensor(0)
        while k > 0:
            total = total + (n * 2 if k > 2 else n // 2)
            k -= 1
        return total


def _lists(*lists: list[float]) -> Inputs:
    return tuple((torch.tensor(each),) for each in lists)


WHOLE = _lists([1, 3, 2, 1], [0, 5], [2, 2, 2, 1, 7, 4], [-1, 1, 3], [3, 1])
FIXED = _lists([1, 3, 2, 1], [0, 5, 5, 2], [2, 2, 2, 2], [-1, 1, 3, 7], [3, 1, 0, 0])
FLOATS = _lists(
    [1.0, 3.0, 2.5, 1.0], [0.0, 5.0], [2.0, 2.5, -0.0, 1.0, 0.0], [float("inf"), 1.0, -1.0], [0.1, 0.3, 0.1]
)
NANS = _lists(
    [1.0, float("nan"), 2.0], [float("nan"), 1.0], [-0.0, 0.0], [0.0, -0.0, float("nan")], [float("-inf"), 1.0]
)
COUNTS = _lists([1, 0, 2, 1], [0, 1], [2, 2, 2, 1, 0, 0], [1, 1, 2], [5, 0])
NUMBERS: Inputs = tuple((torch.tensor(n),) for n in (3, 2, 0, 5, -7))
N = ({0: "n"},)

CASES = of(
    "lists of numbers from data",
    *(
        Row(f"{name}, {kind}", build, inputs, shapes)
        for kind, inputs, shapes in (("dynamic", WHOLE, N), ("fixed", FIXED, None), ("floats", FLOATS, N))
        for name, build in (
            ("extremes", Extremes),
            ("searched", Searched),
            ("one by one", OneByOne),
            ("joined", Joined),
            ("left early", LeftEarly),
        )
        if not (kind == "floats" and build is Joined)
    ),
    Row("extremes of NaN", Extremes, NANS, N),
    Row("sorted", Sorted, WHOLE, N),
    Row("sorted, fixed", Sorted, FIXED),
    Row("ranges", Ranges, COUNTS, N),
    Row("parts", CutOut, tuple((torch.arange(12.0).reshape(6, 2), *each) for each in COUNTS), ({}, {0: "n"})),
    Row("some of them", MadeAnew, WHOLE, N),
    Row("some of them, fixed", MadeAnew, FIXED),
    Row("perhaps none of them", PerhapsEmpty, WHOLE, N, "# floats, where it is empty"),
    Row("in a set", Different, WHOLE, N, "# numbers in a set"),
    Row("in a set, fixed", Different, FIXED, None, "# numbers in a set"),
    Row("the same number read again in a branch", ReadAgain, NUMBERS),
    Row("the same number read again in a loop", ReadInLoop, NUMBERS),
)
