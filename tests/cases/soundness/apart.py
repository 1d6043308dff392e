"""Branches whose arms leave what no one value can be, so that what follows them runs in each of the arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, ROWS, SIZES, Row, of


class OneOfTwoFunctions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        shape = torch.tanh if x.sum() > 0 else torch.relu
        return shape(x * 2) + 1


class NumberOrRow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total: Any = 0.0
        if x.sum() > 0.5:
            total = x[0]
        elif x.mean() < 0:
            total = torch.ones(4)
        return (x + total).sum(0)


class NoneOrTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = None
        if x.sum() > 0:
            first = x[0]
        several = [first, first] if x.mean() > 0.3 else []
        return x if first is None else x + first * len(several)


class ListOrTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pair = Pair(x, 1)
        if x.sum() > 0:
            pair.scale, pair.value = 0.5, [x, x * 2]
        return x * pair.scale + (pair.value[1] if isinstance(pair.value, list) else 3)


class ListOfOneOrThree(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts: list[Any] = [x]
        if x.sum() > 0:
            parts.append(None)
            parts.append(x * 2)
        parts[0] = x + len(parts)
        return parts[0] if len(parts) == 1 else parts[0] + parts[-1]


@dataclass
class Pair:
    value: Any
    scale: float


class WrittenResidual(nn.Module):
    """Only one arm makes another tensor of `x`, so that only there the residual is not written to."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x * 1.0
        y = x
        if x.sum() > 0:
            x.sub_(0.25)
            x = x.clone()
        else:
            if x[0].sum() > 0:
                x = x * 2
            x[0] = 0.5
        x.mul_(2)
        return x + 1, y


class TestIsWritten(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, flag = x.clone(), x.sum() > 0
        z = y if flag else y * 2
        flag.logical_not_()
        y.add_(1)
        return y, z


class WrittenInABranch(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        z = y if x.sum() > 0 else y * 2
        if x.mean() > 0.1:
            y.add_(1)
        else:
            y[0] = 0
        return y, z


class WrittenAndReadInABranch(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        for _ in range(2):
            z = y if x.sum() > 0 else y * 2
            if x.mean() > 0.1:  # reads as z what it writes to
                y.add_(1)
                y = y * z
        return y, z


def filled(held: list[Tensor], x: Tensor) -> Tensor:
    if x.sum() > 0:  # appends to its caller's
        held.append(x * 3)
    return x * 2


class ListOfTheCaller(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = [x]
        y = filled(held, x)
        return y + held[-1]


class ListOfTheModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.held: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        held = self.held
        if x.sum() > 0:  # stays in the model
            held.append(1)
        return x * len(held)


class DefaultOfAFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        def noted(value: int, held: list[int] = []) -> int:  # noqa: B006
            held.append(value)
            return len(held)

        if x.sum() > 0:  # one or two entries
            count = noted(1)
        else:
            count = noted(2) + noted(3)
        return x * (count + noted(5))


class TupleOrList(nn.Module):
    def one(self, x: Tensor) -> Any:
        if x.sum() > 0:  # gives one or the other
            return (x, 1)
        return [x * 2]

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x)[0] * len(self.one(x))


class KeysInTwoOrders(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        entries = {}
        if x.sum() > 0:
            entries["a"] = x
            entries["b"] = x * 2
        else:
            entries["b"] = x * 2
            entries["a"] = x
        return torch.stack([*entries.values()])


class KeysOfTheCaller(nn.Module):
    def fill(self, entries: dict[str, Tensor], x: Tensor) -> None:
        if x.sum() > 0:  # fills its caller's
            entries["a"] = x
            entries["b"] = x * 2
        else:
            entries["b"] = x * 2
            entries["a"] = x

    def forward(self, x: Tensor) -> Tensor:
        entries: dict[str, Tensor] = {}
        self.fill(entries, x)
        return torch.stack([*entries.values()])


class ViewBesideWrites(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        row, out = x[0], torch.zeros(4)
        for i in range(x.shape[0]):  # reads what it writes to
            x[0] = x[0] * 0.5
            out = out + row
            row = x[i] + 1
        return out


class NameBesideWrites(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        y, z = x, x * 0
        while x.sum() < 20:  # adds to both at first
            x.add_(2)
            z = z + y
            y = y + 1
        return z


CASES = (
    *of(
        "arms told apart",
        Row("one of two functions", OneOfTwoFunctions, FLAT),
        Row("a number or a row", NumberOrRow, SIZES, ROWS),
        Row("None or a tensor", NoneOrTensor, SIZES, ROWS),
        Row("a list or a tensor", ListOrTensor, FLAT),
        Row("a list of one or of three", ListOfOneOrThree, FLAT),
        Row("a residual that one arm writes to", WrittenResidual, SIZES, ROWS),
        Row("a list of the caller", ListOfTheCaller, FLAT, None, "# appends to its caller's"),
        Row("a list of the model", ListOfTheModel, FLAT, None, "# stays in the model"),
        Row("a default of a function", DefaultOfAFunction, FLAT, None, "# one or two entries"),
        Row("keys in two orders", KeysInTwoOrders, FLAT),
        Row("keys of the caller in two orders", KeysOfTheCaller, FLAT, None, "# fills its caller's"),
        Row("a tuple or a list", TupleOrList, FLAT, None, "# gives one or the other"),
    ),
    *of(
        "merged names that are written to",
        Row("a test that is written to", TestIsWritten, FLAT),
        Row("in a branch", WrittenInABranch, SIZES, ROWS),
        Row("in a branch that reads both", WrittenAndReadInABranch, FIXED, None, "# reads as z"),
        Row("a view that turns hand on", ViewBesideWrites, SIZES, ROWS, "# reads what it writes to"),
        Row("another name that turns hand on", NameBesideWrites, FLAT, None, "# adds to both at first"),
    ),
)
