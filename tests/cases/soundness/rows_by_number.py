"""Rows of a dynamic number, of which single ones are taken by their numbers, or by a star."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Row, drawn, of


class FirstAndLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = x.unbind()
        return rows[0] * 2 - list(x)[-1]


class Middle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = x.unbind(0)
        return rows[len(rows) // 2] + rows[True]


class Neighbours(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = x.unbind(0)
        return torch.stack([rows[i] - rows[i - 1] for i in range(1, len(rows))])


class EverySecond(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([row[None] for row in tuple(x)[::2]])


class FromTheEnd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(x.split(1)[::-1])


class Starred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        state, *others = x.unbind(0)
        for row in others:
            state = torch.tanh(state * 0.5 + row)
        return state


class StarredBetween(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        first, *between, last = x
        *plain, end = (first, last)
        return first + len(between), last * len(plain), end


class Written(nn.Module):
    """An element is a view."""

    def forward(self, x: Tensor) -> Tensor:
        whole = x.clone()
        first, *others = whole
        first.mul_(3)
        others[-1].add_(2)
        return whole


class WrittenFromTheEnd(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        whole = x.clone()
        rows = whole.unbind(0)[::-1]  # turned
        rows[0].add_(1)  # in its place
        return whole * 2


class Added(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return sum(x.unbind(0), x[0])  # type: ignore[return-value]  # of tensors


class Largest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * max(x.sum(1).unbind(0))


class TooFar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = x.unbind(0)
        return rows[3] if len(rows) > 3 else rows[0] * 2


CASES = of(
    "a row by its number",
    Row("the first and the last", FirstAndLast, SIZES, ROWS),
    Row("one by half the count", Middle, SIZES, ROWS),
    Row("neighbours", Neighbours, SIZES, ROWS),
    Row("every second one", EverySecond, SIZES, ROWS),
    Row("from the end", FromTheEnd, SIZES, ROWS),
    Row("a star", Starred, SIZES, ROWS),
    Row("a star between", StarredBetween, SIZES, ROWS),
    Row("writes", Written, SIZES, ROWS),
    Row("writes, from the end", WrittenFromTheEnd, SIZES, ROWS, "# turned"),
    Row("their sum", Added, SIZES, ROWS),
    Row("the largest", Largest, SIZES, ROWS),
    Row("one that is not always there", TooFar, (*SIZES, (drawn(9, 4, seed=5),)), ROWS),
)
