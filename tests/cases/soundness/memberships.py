"""Numbers from data that are looked for in sets, dicts and ranges."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import Inputs, Row, of


class InSets(nn.Module):
    def forward(self, n: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, named = n.item(), {1: "one", 4: "four", "x": "no number"}
        return torch.tensor(k in {1, 2}), torch.tensor(k not in frozenset((1, 7))), torch.tensor(k in named)


class InRanges(nn.Module):
    def forward(self, n: Tensor) -> tuple[Tensor, ...]:
        k = n.item()
        found = k in range(0, 10, 2), k not in range(7, -5, -3), k in range(3, 3), n in range(-2, 5)
        return (*map(torch.tensor, found), torch.ones(2) if k in range(5) else torch.zeros(2))


class StopsAtSome(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        stops, total = {2, 4}, torch.tensor(0)
        for k in torch.stack([n - 1, n, n + 2]):
            if k.item() in stops:
                break
            total = total + k
        return total


class OfADict(nn.Module):
    def forward(self, n: Tensor) -> Tensor:
        named = {1: 10, 4: 40, 0: 3, 7: 2, -2: 1}
        return torch.tensor(named[n.item()])  # takes an item of a dict


WHOLE: Inputs = tuple((torch.tensor(n),) for n in (1, 4, 0, 7, -2))

FRACTIONS: Inputs = tuple((torch.tensor(n),) for n in (1.0, 4.5, float("nan"), float("inf"), -2.0))

CASES = of(
    "numbers looked for",
    Row("in sets and a dict", InSets, WHOLE),
    Row("in ranges", InRanges, WHOLE),
    Row("fractions, in ranges", InRanges, FRACTIONS),
    Row("where a loop stops", StopsAtSome, WHOLE),
    Row("an item of a dict", OfADict, WHOLE, None, "# takes an item of a dict"),
)
