"""Loops that count by a variable or by the length of a list, and lists that loops have filled, read by a number."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, drawn, of


class CountedByLength(nn.Module):
    """As the decoder of Tacotron 2 under teacher forcing, which puts a frame of its own before those that it gets."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        frames = torch.cat([torch.zeros_like(x[:1]), x])
        self.state = torch.zeros_like(x[0])
        made, gates = [], []
        while len(made) < frames.size(0) - 1:
            self.state = torch.tanh(self.state + frames[len(made)])
            made += [self.state]
            gates += [self.state.sum(-1)]
        return torch.stack(made), torch.stack(gates)


class CountedByVariable(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        made, i = [x[0]], 1
        while i <= x.size(0) - 1:
            made.append(x[i] * i)
            i += 2
        return torch.stack(made), x[0] * i


class CountedBeforeUse(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made, i = [], -1
        while i < x.size(0) - 1:
            i += 1
            made.append(x[i] * i)
        return torch.stack(made)


class EndThatMoves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made, i, n = [], 0, x.size(0)
        while i < n:
            made.append(x[i] * i)
            i += 1
            n -= 1
        return torch.stack(made)


class TwoInATurn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made: list[Tensor] = []
        while len(made) < x.size(0):
            made.append(x[len(made)])
            made.append(x[0])
        return torch.stack(made)


class StepByData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made, i = [], 0
        while i < x.size(0):
            made.append(x[i])
            if x[i].sum() > 0:  # data tell the step
                i += 1
            i += 1
        return torch.stack(made)


class Viterbi(nn.Module):
    """The best way through a chain, found from its end by what each step has kept."""

    def forward(self, x: Tensor) -> Tensor:
        score, kept = x[0], []
        for i in range(1, x.shape[0]):
            score, best = (score.unsqueeze(1) + x[0] * 0.1 + x[i].unsqueeze(0)).max(0)
            kept.append(best)
        found = [score.argmax()]
        for i in range(len(kept) - 1, -1, -1):
            found.append(kept[i][found[-1]])
        found.reverse()
        return torch.stack(found)


class RowsWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept = []
        for row in x:
            kept.append(torch.tanh(row))
        total = torch.zeros_like(x[0])
        for i in range(len(kept)):
            row = kept[i]
            row += total
            total = row * 0.5
        return total, torch.stack(kept)


class Numbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i in range(x.shape[0]):
            kept.append(i * 3)
        total = torch.zeros_like(x[0])
        for i in range(x.shape[0] - 1):
            total = total + kept[i + 1] * x[i]
        return total


class FromTheEnd(nn.Module):
    """`kept[-1]` in the first turn."""

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for row in x:  # fills it
            kept.append(torch.tanh(row))
        total = torch.zeros_like(x[0])
        for i in range(len(kept)):
            total = total * 0.5 + kept[i - 1]
        return total


LONG: Inputs = (*SIZES, (drawn(7, 4, seed=4),), (drawn(11, 4, seed=5),))

CASES = of(
    "what is counted, and lists read by it",
    Row("a loop counts by the length of a list", CountedByLength, LONG, ROWS, or_right=True),
    Row("a loop counts by a variable that is read later", CountedByVariable, LONG, ROWS, or_right=True),
    Row("a variable is counted before it is used", CountedBeforeUse, LONG, ROWS, or_right=True),
    Row("the end moves", EndThatMoves, LONG, ROWS, or_right=True),
    Row("a list grows by two", TwoInATurn, LONG, ROWS, or_right=True),
    Row("data tell the step", StepByData, LONG, ROWS, "# data tell the step"),
    Row("what steps have kept, from the last to the first", Viterbi, LONG, ROWS),
    Row("rows of a filled list that are written to", RowsWrittenTo, LONG, ROWS),
    Row("numbers of a filled list", Numbers, LONG, ROWS),
    Row("an element that may be the last", FromTheEnd, LONG, ROWS, "# fills it"),
)
