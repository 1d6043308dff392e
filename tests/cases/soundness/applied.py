"""Programs that go through rows by `map`, `reduce`, `sum`, `max` and displays of lists, without a loop of their own."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, drawn, of


class Mapped(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        both = [*map(lambda row, other: row * other, x, x.flip(0))]
        return torch.stack(list(map(torch.tanh, x))), torch.stack(both)


class LoopOverMap(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x[0] * 0
        for row in map(torch.tanh, x):
            total = total * 0.5 + row
        return total


class Reduced(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = reduce(lambda total, row: total * 0.5 + row, x)
        return first, reduce(lambda total, row: torch.tanh(total - row), x, x[0] * 3)


class Summed(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return sum(x), sum(x, x[0] * 3), sum(map(torch.exp, x))


class Extremes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sums = []
        for row in x:
            sums.append(row.sum())
        return max(sums), min(sums), max(row.prod() for row in x)


class ExtremesOfNan(nn.Module):
    """Python's `max` keeps the first value that no later one is greater than, and nothing is greater than NaN."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return max(row.sum() for row in x.sqrt()), min(row.sum() for row in x.flip(0).sqrt())


class OfAVector(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return max(x), min(x)


class Displayed(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for row in x:
            kept.append(row * 2)
        return torch.stack([*x]), torch.stack([x[0], *kept, kept[-1]])


class AskedInAChoice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if any(row.sum() > 2 for row in x) else x - 1


class Tuples(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for i, row in enumerate(x):
            kept.append((row * 2, (i, row.sum())))
        products = [row * i + total for row, (i, total) in kept]
        return torch.stack(products), kept[0][0] * kept[-1][1][1]


class Transposed(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        states, sums = zip(*[(torch.tanh(row), row.sum()) for row in x], strict=True)
        return torch.stack(states), torch.stack(sums)


class TuplesByATest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [(x[0], x[0].sum())]
        for row in x:
            if row.sum() > 0:
                kept.append((row * 2, row.max()))
        return torch.stack([row * total for row, total in kept])


class Counting(nn.Module):
    """A function that `map` calls for each row counts, appends and writes to a tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        counted, seen, total = [0], [], torch.zeros_like(x[0])

        def turn(row: Tensor) -> Tensor:
            counted[0] += 1
            seen.append(row * 2)
            total.add_(row)
            return row * counted[0] if counted[0] <= 8 else row * 0

        rows = torch.stack(list(map(turn, x)))
        return rows, torch.stack(seen), total * counted[0]


class UsedTwice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = map(torch.tanh, x)  # gives its items once
        total = torch.stack(list(rows)).sum(0)
        for row in rows:
            total = total + row
        return total


class Joined(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kept, turned = [], []
        for row in x:
            kept.append(row * 2)
        for row in x:
            turned.append(row.flip(0))
        both = kept + turned
        last = kept.pop()
        kept.append(last + 1)
        return torch.stack(both), torch.stack([x[0]] + kept), torch.stack(turned + [x[0]])


class PartsByNumber(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 1
        y.split(2)[0].mul_(5)
        y.split(3)[-1].add_(7)
        return y, x.split(2)[-1]


class SecondPart(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.split(2)[1] * 2


class WrittenBehindMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        sums = []
        for row in x:
            sums.append(row.sum())
        best = max(sums)
        best.add_(1)  # which is an element
        return torch.stack(sums) * best


MORE: Inputs = (*SIZES, (drawn(7, 4, seed=4),), (drawn(1, 4, seed=6),))

CASES = of(
    "functions that go through values",
    Row("map", Mapped, MORE, ROWS),
    Row("a loop over map", LoopOverMap, MORE, ROWS),
    Row("reduce", Reduced, MORE, ROWS),
    Row("sum", Summed, MORE, ROWS),
    Row("max and min", Extremes, MORE, ROWS),
    Row("max and min of NaN", ExtremesOfNan, MORE, ROWS),
    Row("max and min of a vector", OfAVector, tuple((drawn(n, seed=n),) for n in (4, 6, 1, 9)), ROWS),
    Row("displays of lists", Displayed, MORE, ROWS),
    Row("any in a choice", AskedInAChoice, MORE, ROWS),
    Row("a list of tuples", Tuples, MORE, ROWS),
    Row("a list of tuples is transposed", Transposed, MORE, ROWS),
    Row("tuples that a test appends", TuplesByATest, MORE, ROWS),
    Row("state that is changed for each row", Counting, (*MORE, (drawn(12, 4, seed=7),)), ROWS),
    Row("an iterator that is used twice", UsedTwice, MORE, ROWS, "# gives its items once", or_right=True),
    Row("lists are joined, and an element is taken away", Joined, MORE, ROWS),
    Row("parts by their numbers", PartsByNumber, MORE, ROWS),
    Row("the second part", SecondPart, SIZES[:2], ROWS, or_right=True),
    Row("the largest element is written to", WrittenBehindMax, MORE, ROWS, "# which is an element"),
)
