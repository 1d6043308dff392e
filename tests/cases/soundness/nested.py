"""Lists that loops within loops fill, and comprehensions within others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, Inputs, Row, drawn, of


class Pairs(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = []
        for row in x:
            for other in y:
                kept.append(row.sum() * other)
        return torch.stack(kept)


class Patches(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for i in range(0, x.shape[0], 2):
            for j in range(0, y.shape[0], 3):
                kept.append(x[i : i + 2].mean() * y[j : j + 3].mean())
        return torch.stack(kept), kept[0] * len(kept)


class Triangle(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = []
        for i in range(x.shape[0]):
            for j in range(i + 1):
                kept.append(x[i] * x[j] + y[0].sum())
        return torch.stack(kept)


class Between(nn.Module):
    """Single elements before and behind those of the inner loop."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = [x[0, 0]]
        for row in x:
            kept.append(row.sum())
            for other in y:
                kept.append(row.sum() * other.sum())
            kept.append(row.prod())
        return torch.stack(kept)


class Asked(nn.Module):
    """A turn asks how many elements there are."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        kept: list[Tensor] = []
        total = x.sum() * 0
        for row in x:
            total = total + len(kept)
            for other in y:
                kept.append(row.sum() * other)
        return torch.stack(kept), total


class ByATest(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = [x[0] * 0]
        for row in x:
            for other in y:
                if other.sum() > 0:
                    kept.append(row * other[0])
        return torch.stack(kept)


class ThreeDeep(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = []
        for row in x:
            for other in y:
                for third in x:
                    kept.append(row.sum() * other.sum() + third)
        return torch.stack(kept)


class Comprehensions(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        n = x.shape[0]
        grid = torch.stack([torch.stack([row.sum() * other.sum() for other in y]) for row in x])
        products = torch.stack(
            [
                torch.stack(
                    [
                        x[i] @ x[j]  # a matrix of products
                        for j in range(n)
                    ]
                )
                for i in range(n)
            ]
        )
        return grid, products


class OneOfTwoSources(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([row.sum() * other.sum() for row in x for other in y])


class BehindAWrite(nn.Module):
    """Write to a tensor in front of a comprehension, in one statement; no value of the example is changed by it."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z, kept = x * 1, list[Tensor]()
        total = z.clamp_(min=-90).sum(), torch.stack([row * 2 for row in z]).sum(), z.clamp_(min=-80).sum()
        kept.append(total[0] + total[2])
        return total[1] + y[0].sum(), kept[0]


class ReadByTheOuter(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = [x.sum()]
        for row in x:  # reads what the inner one appends
            total = torch.stack(kept).sum()
            for other in y:  # reads what the inner one appends
                kept.append(row.sum() * other.sum() + total)
        return torch.stack(kept)


class PairsBelow(nn.Module):
    """Let turns count to the number of the outer one, which does not begin at 0, and compute with it."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, total, table = x.shape[0], x.new_zeros(4), x.new_zeros(x.shape[0], x.shape[0])
        for i in range(1, n):
            after = i + 1
            for j in range(i):
                total = total + x[i] * x[j] * (i + 2) / after
                table[i, j] = x[i].sum() - j
        return total, table


class Triples(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n, total = x.shape[0], x.new_zeros(4)
        for i in range(n):
            for j in range(i + 1, n):
                for k in range(j + 1, n):
                    total = total + x[i] * x[j] * x[k] * (k - i)
        return total


class LongestRise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first, best = x[:, 0], torch.ones(x.shape[0])
        for i in range(1, x.shape[0]):
            for j in range(i):
                if first[i] > first[j]:
                    best[i] = max(best[i], best[j] + 1)
        return best.max()


BOTH: Any = ({0: "n"}, {0: "m"})

PAIRED: Inputs = tuple((drawn(n, 3, seed=n), drawn(m, 2, seed=m)) for n, m in ((4, 5), (5, 3), (2, 6), (8, 2), (1, 1)))

COUNTED: Inputs = tuple((drawn(n, 4, seed=n),) for n in (5, 3, 8, 2, 1))

CASES = of(
    "loops within loops",
    Row("pairs", Pairs, PAIRED, BOTH),
    Row("patches", Patches, PAIRED, BOTH),
    Row("a triangle", Triangle, PAIRED, BOTH),
    Row("single elements beside", Between, PAIRED, BOTH),
    Row("the length is asked for", Asked, PAIRED, BOTH),
    Row("elements by a test", ByATest, PAIRED, BOTH),
    Row("three loops", ThreeDeep, PAIRED, BOTH),
    Row("comprehensions within others", Comprehensions, PAIRED, BOTH),
    Row("a comprehension of two sources", OneOfTwoSources, PAIRED, BOTH),
    Row("behind a write of the same statement", BehindAWrite, (*PAIRED, (drawn(3, 3) * 999, drawn(2, 2))), BOTH),
    Row("pairs of a number and those below it", PairsBelow, COUNTED, ROWS),
    Row("triples", Triples, (*COUNTED[:3], (drawn(3, 4),)), ROWS, or_right=True),
    Row("the longest rise", LongestRise, COUNTED, ROWS),
    Row("the outer loop reads the list", ReadByTheOuter, PAIRED, BOTH, "# reads what the inner one appends"),
)
