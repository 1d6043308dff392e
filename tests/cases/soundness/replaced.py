"""Lists, dicts and objects of two names, one of which gets another list in a branch, and a write behind it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FLAT, Inputs, Row, of

WAYS: Inputs = (*FLAT, (torch.tensor([-1.0, 1.0, 0.5, 2.0]),))
"""Inputs of [4]; the last takes the second branch alone."""


class ListReplaced(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = [x, x]
        second = first
        if x[0] > 0:
            second = [x, x + 1]
        if x[1] > 0:
            second[0] = x * 9
        return first[0] + 0, second[0] + 0


class DictCopied(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cache = {"k": x}
        current = cache
        if x[0] > 0:
            current = dict(cache)
        if x[1] > 0:
            current["k"] = current["k"] * 9
        return cache["k"] + 0, current["k"] + 0


class ItemReplaced(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        held = {"p": [x, x]}
        rows = held["p"]
        if x[0] > 0:
            held["p"] = [x, x * 2]
        if x[1] > 0:
            held["p"][0] = x * 9
        return rows[0] + 0, held["p"][0] + 0


class Holder:
    """An object with an attribute."""

    rows: list[Tensor]


class AttributeReplaced(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        held = Holder()
        held.rows = [x, x]
        rows = held.rows
        if x[0] > 0:
            held.rows = [x, x * 2]
        if x[1] > 0:
            rows[0] = x * 9
        return rows[0] + 0, held.rows[0] + 0


class NumbersReplaced(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counts = [1, 2]
        others = counts
        if x[0] > 0:
            counts = [5, 5]
        if x[1] > 0:
            others[0] = 7
        return x * counts[0] + others[0]


class WrittenAtOnce(nn.Module):
    """Nothing is asked behind the branch."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = [x, x]
        second = first
        if x[0] > 0:
            second = [x, x + 1]
        second[0] = x * 9
        return first[0] + 0, second[0] + 0


class ArgumentReplaced(nn.Module):
    """The other name is that of the caller."""

    def changed(self, rows: list[Tensor], x: Tensor) -> Tensor:
        if x[0] > 0:
            rows = [x, x + 1]
        rows[0] = x * 9
        return rows[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = [x, x]
        return self.changed(rows, x), rows[0] + 0


class InATuple(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = [x, x]
        kept = (rows, 1)
        if x[0] > 0:
            rows = [x, x + 1]
        rows[0] = x * 7
        return kept[0][0] + 0, rows[0] + 0


class OfOneName(nn.Module):
    """Replace and write to a list of one name."""

    def forward(self, x: Tensor) -> Tensor:
        rows = [x, x]
        if x[0] > 0:
            rows = [x, x + 1]
        if x[1] > 0:
            rows[0] = x * 9
        rows.append(x)
        return rows[0] + rows[1] + rows[2]


class NotWritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = [x, x]
        second = first
        if x[0] > 0:
            second = [x, x + 1]
        return first[0] + second[1]


class WrittenOrReplaced(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = {"a": x}
        if x[0] > 0:
            rows["a"] = x * 2
        else:
            rows = {"a": x - 1}
        return rows["a"] + 1, x


class WrittenOrReplacedInTurns(nn.Module):
    def forward(self, x: Tensor) -> Any:
        rows = [x, x]
        for row in x:
            if row > 0:  # writes or replaces
                rows = [rows[1] + row, rows[0]]
            else:
                rows[1] = rows[1] * 2
        return rows


class ReplacedInTurns(nn.Module):
    def forward(self, x: Tensor) -> Any:
        first = [x, x]
        second, left = first, x.sum()
        while left > 0:  # replaces a list
            second, left = [x, second[1] + 1], left - 1
        second[0] = x * 9
        return first[0] + 0, second[0] + 0, second[1] + 0


class ShorterOnOneWay(nn.Module):
    """Write to a tensor behind a branch that makes it shorter."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        z = y
        if x[0] > 0:
            y = y[:2]
        if x[1] > 0:
            z *= 2
        return y.sum(), z


class RegisteredAnew(nn.Module):
    """A buffer of the checkpoint becomes one that is not saved, on one of the ways."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # registers it otherwise
            self.register_buffer("table", torch.arange(4.0) * 2, persistent=False)
        return x * self.table


CASES = (
    *of(
        "containers that a branch replaces",
        Row("a list", ListReplaced, WAYS),
        Row("a copied dict", DictCopied, WAYS),
        Row("an item", ItemReplaced, WAYS),
        Row("a buffer that is registered anew", RegisteredAnew, FLAT, None, "# registers it otherwise"),
        Row("an attribute", AttributeReplaced, WAYS),
        Row("a list of numbers", NumbersReplaced, WAYS),
        Row("a list, written to at once", WrittenAtOnce, WAYS),
        Row("an argument", ArgumentReplaced, WAYS),
        Row("a list in a tuple", InATuple, WAYS),
        Row("a list of one name", OfOneName, WAYS),
        Row("a list that nothing writes to", NotWritten, WAYS),
        Row("a dict that another way writes to", WrittenOrReplaced, WAYS),
        Row("a list that other turns write to", WrittenOrReplacedInTurns, WAYS, None, "# writes or replaces"),
        Row("a tensor that is shorter", ShorterOnOneWay, WAYS),
        Row("a list, in turns", ReplacedInTurns, WAYS, None, "# replaces a list"),
    ),
)
