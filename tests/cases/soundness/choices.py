"""Choices of data: elements of lists, attributes and variables that one branch alone sets, jumps out of loops."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, ROWS, SIZES, Inputs, Row, of


class LastElement(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = [x[0]]
        before = list(parts)
        if x.sum() > 0:
            parts.extend([x[1], x[2]])
        if x.mean() > 0.3:
            parts.append(x[0] * 0.5)
        return x * parts[-1] + sum(parts) + parts[0] * len(before) + len(parts)


class ListBehindAnother(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = [x[0]]
        if x.sum() > 0:
            parts.append(x[1])
        return x * len([x[2]] + parts)  # noqa: RUF005


class ElementWritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        parts = [x[0]]
        if x.sum() > 0:
            parts.append(x[1])
        parts[-1].mul_(2)
        return x


class ElementByData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a, b = x + 1, x * 0.5
        positive = int((x > 0).sum())
        c = (a, b)[int(x.mean().item() > 0.05)]
        c *= 0.5
        return a + b * 2 + c * [1, 2.5, 3, -1, 5][positive] + [0.5, 1, 2, 3, 4][-positive]


class ElementCaught(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            return x * [1, 2, 3][(x > 0).sum()]  # may raise an error
        except IndexError:
            return x


class SortedByKey(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = sorted([x[0], x[1] * 0.5, x[2]], key=lambda y: float(y.sum()))
        behind = sorted([x[0], x[1], x[2]], key=lambda y: bool(y.sum() > 0), reverse=True)
        return x + rows[0] * 3 + rows[1] + behind[0] + behind[1] * 2


class SortedAndWritten(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a, b = x[0].sum(), x[1].sum()
        sorted([a, b])[0].mul_(3)  # writes to one of two
        return x + a + b * 2


class PowerInAWhile(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = 0
        while k < 3 and x.sum() < 10:
            x = x * 2**-k + 0.5
            k += 1
        return x + k


class WalrusOnBothWays(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.add(z := torch.relu(x), x) * 0.5 if x.sum() > 0 else (z := x) - 1
        return y + z * 2


class UsedOnItsWay(nn.Module):
    """The attribute is read where it was set, and nowhere else."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.kept = x * 2
            x = x + self.kept
        return x


class Cached(nn.Module):
    cache: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.cache = None

    def filled(self, x: Tensor) -> None:
        self.cache = None
        if x.sum() > 0:  # leaves None on one way
            self.cache = x * 2


class CacheAsked(Cached):
    def forward(self, x: Tensor) -> Tensor:
        self.filled(x)
        if self.cache is not None:  # asks for the cache
            return x + 1
        return x - 1


def is_filled(model: Any) -> bool:
    return model.cache is not None  # asks a model for its cache


class CacheAskedElsewhere(Cached):
    def forward(self, x: Tensor) -> Tensor:
        self.filled(x)
        return x + 1 if is_filled(self) else x - 1


class VariableAsked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = None
        if x.sum() > 0:
            y = x * 2
        return x + 1 if y is not None else x


class VariableOfTwoBranches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = None
        if x.sum() > 0:
            y = x * 2
        if x.mean() > 0.5:
            y = x * 3
        try:
            return x + y  # type: ignore[operator]  # adds what may be None
        except TypeError:
            return x


class ItemAsked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = {"a": None}
        if x.sum() > 0:
            held["a"] = x * 2  # type: ignore[assignment]  # that is the point
        return x + 1 if held["a"] is not None else x


class AttributeAsked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.kept = x * 2
        return x + 1 if hasattr(self, "kept") else x


class AttributeOfTheClass(nn.Module):
    kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # hides what the class has
            self.kept = x * 2
        return x + 1 if self.kept is None else x


class RowBefore(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        last, total = None, torch.zeros(4)
        for row in x:
            if last is not None:
                total = total + last
            last = row
        return total


class ContinueInTurnsOfData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(int((x > 0).sum())):
            x = torch.tanh(x + i * 0.25)
            if x.sum() > 0.125:
                continue
            x = x - 0.5
        return x


class ReturnBehindAReturn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 3:
            return x * 2
        for row in x.unbind(0):
            if row.sum() > 0:
                return x + row
        return x - 1


class JumpWhoseTestWrites(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def noted(self, y: Tensor) -> Tensor:
        self.count += 1
        return y.sum()

    def forward(self, x: Tensor) -> Tensor:
        for row in x.unbind(0):
            x = x + row
            if self.noted(x) > 0:
                continue
        return x + self.count


class AnyOfRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if any(row.sum() > 0 for row in x) and not all(each > 0 for each in x[0]):
            return x + 1
        return x - 1


class AnyThatNotes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        seen = []

        def is_positive(i: int) -> Tensor:
            seen.append(x[i])
            return x[i] > 0

        found = any(is_positive(i) for i in range(3))  # notes what it saw
        return torch.stack(seen).sum() * (1 if found else 2)


class AllThatCounts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counts = [0]

        def is_positive(i: int) -> Tensor:
            counts[0] += 1
            return x[i] > 0

        found = all(map(is_positive, range(3)))  # counts what it saw
        return x * counts[0] * (1 if found else 2)


class AndOr(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * (x.sum() > 0 and 5 or 7)  # takes one of two numbers


class QuotientCaught(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            factor = 1.0 / x.sum().item()  # may divide by zero
        except ZeroDivisionError:
            factor = 0.0
        return x * factor


class RootCaught(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        try:
            root = math.sqrt(x.sum().item())  # may have no root
        except ValueError:
            root = -1.0
        return x * root


class AmongIndices(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = int(x.argmax())
        if k in (0, 2):
            x = x + k
        return x


class ChoiceInAChoice(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.clone()
        y = x.sin() if x.sum() > 1 else (x if x.max() > 0.5 else x.cos())
        y -= 0.25
        return x, y


class Guarded(nn.Module):
    """The right side of `and`, `or` and of a chain fails where the first operand tells not to compute it."""

    def forward(self, x: Tensor) -> Tensor:
        k = int(x[0])
        if k != 5 and 6 // (k - 5) >= -1:
            x = x + 1
        if k == 5 or 7 % (k - 5) > -3:
            x = x + 2
        return x + 4 if 1 < k < 5 < 10 // (5 - k) else x


class GuardedElements(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x[x > 0]
        if len(y) and y[0] > 1:
            x = x + 1
        if y.numel() == 0 or y[-1] > 2:
            x = x + 2
        if len(y) > 0 and y.argmax() > 1:
            x = x + 4
        if (x > 0).any() and x[x > 0].max() > 3:
            x = x + 8
        n = (x == 5).sum()
        return x + 16 if n > 0 and (60 // n) > 20 else x


class GuardedView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x[x > 0]
        if len(y) == 3 and y.view(3, 1).sum() > 2:
            x = x * 2
        return x + y.sum()


class GuardedTruth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x[x > 0]
        return torch.tensor(bool(len(y)) and bool(y[0] > 1))


GUARDED: Inputs = tuple(
    (torch.tensor(numbers),)
    for numbers in ([3.0, -60, 4], [5.0, 7, 1], [-5.0, -1, -2], [0.5, -3, -4], [2.0, 9, 8], [1.0, 5, 5])
)
"""At some of them nothing is above 0, or a divisor is 0."""


CASES = (
    *of(
        "guards",
        Row("of divisors", Guarded, GUARDED),
        Row("of elements that may not be there", GuardedElements, GUARDED),
        Row("of a view", GuardedView, GUARDED),
        Row("as truth values", GuardedTruth, GUARDED),
    ),
    *of(
        "what Python comes to",
        Row("any of rows", AnyOfRows, FIXED),
        Row("any that notes", AnyThatNotes, FLAT, None, "# notes what it saw"),
        Row("all that counts", AllThatCounts, FLAT, None, "# counts what it saw"),
        Row("and, or of numbers", AndOr, FLAT, None, "# takes one of two numbers"),
        Row("a quotient that is caught", QuotientCaught, FLAT, None, "# may divide by zero"),
        Row("a root that is caught", RootCaught, FLAT, None, "# may have no root"),
    ),
    *of(
        "elements that data choose",
        Row("an index among others", AmongIndices, FLAT),
        Row("a choice in a choice, written to", ChoiceInAChoice, FLAT),
        Row("the last of a list", LastElement, FIXED),
        Row("the first by a number", ElementByData, FLAT),
        Row("sorted by a key", SortedByKey, FIXED),
        Row("sorted, then written to", SortedAndWritten, FIXED, None, "# writes to one of two"),
        Row("behind another list", ListBehindAnother, FIXED),
        Row("an element that is written to", ElementWritten, FIXED),
        Row("an error that is caught", ElementCaught, FLAT, None, "# may raise an error"),
    ),
    *of(
        "None on one way",
        Row("an attribute that is read on its way", UsedOnItsWay, FLAT),
        Row("an attribute", CacheAsked, FLAT, None, "# asks for the cache"),
        Row("an attribute, in a function", CacheAskedElsewhere, FLAT, None, "# asks a model for its cache"),
        Row("a variable", VariableAsked, FLAT),
        Row("a variable of two branches", VariableOfTwoBranches, FLAT, None, "# adds what may be None"),
        Row("an item", ItemAsked, FLAT),
        Row("an attribute that is not there", AttributeAsked, FLAT),
        Row("an attribute of the class", AttributeOfTheClass, FLAT, None, "# hides what the class has"),
        Row("the row before", RowBefore, SIZES, ROWS),
    ),
    *of(
        "jumps and bindings",
        Row("continue in turns of data", ContinueInTurnsOfData, FLAT),
        Row("a return in a loop behind a return", ReturnBehindAReturn, FIXED),
        Row("a jump whose test writes", JumpWhoseTestWrites, FIXED),
        Row("walrus on both ways", WalrusOnBothWays, FLAT),
        Row("a power of a sign that data tell", PowerInAWhile, FLAT),
    ),
)
