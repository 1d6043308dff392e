"""Lists at whose head the turns of a loop put elements: `returns.insert(0, r)`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, drawn, of


class Returns(nn.Module):
    def forward(self, reward: Tensor, done: Tensor) -> Tensor:
        total, found = torch.zeros(reward.shape[1]), []
        for t in reversed(range(reward.shape[0])):
            total = reward[t] + 0.9 * total * (1 - done[t])
            found.insert(0, total)
        return torch.stack(found)


class Advantages(nn.Module):
    def forward(self, reward: Tensor, value: Tensor) -> Tensor:
        found: list[Tensor] = []
        gained = torch.zeros(reward.shape[1])
        for t in range(reward.shape[0] - 1, -1, -1):
            gained = reward[t] + 0.9 * value[t + 1] - value[t] + 0.8 * gained
            found.insert(0, gained)
        return torch.stack(found)


class OnSomeOfItsWays(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for row in x:
            if row.sum() > 0:
                found.insert(0, row)
        found.append(x[0])
        return torch.stack(found)


class TwoLoops(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = [x[0] * 7]
        for row in x:
            found.insert(0, row * 2)
            found.insert(0, row * 3)
        for row in x:
            found.append(row)
        for row in x:
            found.insert(0, row + len(found))
        found.insert(0, x.sum(0))
        return torch.stack(found)


class LoopInLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = []
        for row in x:
            found: list[Tensor] = []
            for each in row:
                found.insert(0, each)
            rows.append(torch.stack(found))
        return torch.stack(rows)


class ReadsTheLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = [x[0]]
        for row in x:
            found.insert(0, found[-1] * 0.5 + row)
        return torch.stack(found)


class ReadsTheFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = [x[0]]
        for row in x:  # a turn reads what the one before has put there
            found.insert(0, found[0] * 0.5 + row)
        return torch.stack(found)


class AtBothEnds(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for row in x:  # puts elements at both ends
            found.insert(0, row)
            found.append(row * 2)
        return torch.stack(found)


class AtEitherEnd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: list[Tensor] = []
        for row in x:
            if row.sum() > 0:  # puts it at one end or the other
                found.insert(0, row)
            else:
                found.append(row)
        return torch.stack(found)


class BehindTheFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = [x[0]]
        for row in x:  # puts elements behind the first
            found.insert(1, row)
        return torch.stack(found)


class PartsWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found: list[Tensor] = []
        for row in x:  # a part of a row is written to
            found.insert(0, row[:2])
        before = torch.stack(found)
        found[0].clamp_(-0.3, 0.3)
        return before, torch.stack(found), x


class ElementsWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for row in x:
            found.append(row * 2)
        before = torch.stack(found)
        found[0].clamp_(-0.3, 0.3)
        return before, torch.stack(found)


class TurnedAndWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for row in x:  # elements stand in two lists
            found.append(row * 2)
        turned = found[::-1]
        turned[0].clamp_(-0.3, 0.3)
        return torch.stack(found), torch.stack(turned)


ONE: Inputs = (*SIZES, (drawn(1, 4, seed=3),), (drawn(7, 4, seed=4),))
REWARDS: Inputs = tuple((each, (each > 0).float()) for (each,) in ONE)
VALUES: Inputs = tuple((each, torch.cat([each, each[:1] * 2])) for (each,) in ONE)
ANY = torch.export.Dim.DYNAMIC

CASES = of(
    "elements put at the head of a list",
    Row("sums of what follows", Returns, REWARDS, ({0: "n"}, {0: "n"})),
    Row("the same with the value behind", Advantages, VALUES, ({0: ANY}, {0: ANY})),
    Row("where data choose", OnSomeOfItsWays, ONE, ROWS),
    Row("loops one after the other", TwoLoops, ONE, ROWS),
    Row("a loop in a loop", LoopInLoop, ONE, ROWS),
    Row("a turn reads the last", ReadsTheLast, ONE, ROWS),
    Row("a turn reads the first", ReadsTheFirst, ONE, ROWS, "# a turn reads what the one before"),
    Row("at both ends", AtBothEnds, ONE, ROWS, "# puts elements at both ends"),
    Row("at the end that data choose", AtEitherEnd, ONE, ROWS, "# puts it at one end or the other"),
    Row("parts of rows that are written to", PartsWrittenTo, ONE, ROWS, "# a part of a row is written to"),
    Row("elements that are written to behind a copy", ElementsWrittenTo, ONE, ROWS),
    Row("elements of a turned list, written to", TurnedAndWrittenTo, ONE, ROWS, "# elements stand in two lists"),
    Row("behind the first", BehindTheFirst, ONE, ROWS, "# puts elements behind the first"),
)
