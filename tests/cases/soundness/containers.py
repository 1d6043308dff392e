"""Lists and dataclasses that have several names, and tensors in them that are written to."""

from __future__ import annotations

import collections
import dataclasses

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FIXED, FLAT, ROWS, SIZES, Row, of


class AppendedAndWritten(nn.Module):
    """The list holds one tensor many times."""

    def forward(self, x: Tensor) -> Tensor:
        total, sums = torch.zeros(4), []
        for row in x:  # appends what it writes to
            total += row
            sums.append(total)
        return torch.stack(sums)


class AppendedAndNew(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total, sums = torch.zeros(4), []
        for row in x:
            total = total + row
            sums.append(total)
        return torch.stack(sums) * 2


class RowsWrittenBehind(nn.Module):
    """The list holds views."""

    def forward(self, x: Tensor) -> Tensor:
        x, rows = x * 1.0, []
        for t in range(x.shape[0]):  # makes views
            rows.append(x[t])
        x.mul_(2)
        return torch.stack(rows)


class RowsStackedBefore(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        rows = torch.stack([row * 2 for row in x])
        x.mul_(2)
        return rows + x


class LastWrittenBehind(nn.Module):
    """The last element of the list has another name."""

    def forward(self, x: Tensor) -> Tensor:
        h, states = torch.zeros(4), []
        for row in x:  # keeps its states
            h = torch.tanh(h + row)
            states.append(h)
        h.mul_(2)
        return torch.stack(states)


class EitherList(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        ups, downs = [x * 2], [x * 3]
        parts = ups if x.sum() > 0 else downs
        parts.append(x)
        return sum(ups) + sum(downs) * 10


class NewLists(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        ups, downs = [x * 2], [x * 3]
        parts = [*ups, x] if x.sum() > 0 else downs + [x]
        parts.append(x)
        return sum(ups) + sum(downs) * 10 + sum(parts)


class ListOfTwoNames(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            parts = [x * 2]
            alias = parts
        else:
            parts, alias = [x * 3], [x]
        parts[0] = parts[0] + 1
        return alias[0] + parts[0]


@dataclasses.dataclass
class Scaled:
    """A dataclass whose constructor changes what it is given."""

    value: Tensor
    factor: float = 1.0
    notes: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = self.value * 2


class ScaledInBranches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scaled = Scaled(x, 3.0) if x.sum() > 0 else Scaled(x * 5)
        return scaled.value * scaled.factor


class ReplacedInABranch(nn.Module):
    """The list of notes is one of both."""

    def forward(self, x: Tensor) -> Tensor:
        first = Scaled(x)
        scaled = dataclasses.replace(first, factor=3.0) if x.sum() > 0 else first
        scaled.notes.append("used")
        return scaled.value * scaled.factor + len(first.notes)


class AllOfThemCounted(nn.Module):
    """`all` ends at the first that is false."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("asked", torch.zeros(()))

    def is_small(self, value: Tensor) -> Tensor:
        self.asked += 1
        return value < 1

    def forward(self, x: Tensor) -> Tensor:
        if all(self.is_small(value) for value in x.unbind()):  # counts
            return x + 1
        return x - self.asked


class TextAsKey(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * {"n2": 2.0, "n3": 3.0}.get(f"n{x.shape[0]}", 9.0)  # text of a size


class LastTwo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        first = x * 1.0
        last = collections.deque([first, x * 2], maxlen=2)
        if x.sum() > 0:
            last.append(x * 3)
        first.mul_(2)
        return last[0] + last[-1] * 10


class DequeThatGrows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        last = collections.deque([x], maxlen=2)
        if x.sum() > 0:
            last.append(x * 3)
        return last[0] + last[-1] * 10


class OrderOfADict(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = collections.OrderedDict(a=x, b=x * 2)
        if x.sum() > 0:
            parts.move_to_end("a")
        first, *_ = parts.values()
        return first * 1.0


class NamesTradedInTurns(nn.Module):
    """After one turn `last` is what `y` is."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        last, now, left = torch.zeros(4), y, x.sum()
        while left > 0:
            last, now = now, now * 0.5
            left = left - 2
        last.mul_(2)  # may write to y
        return last + y


class NamesTradedAndCopied(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        last, now, left = torch.zeros(4), y, x.sum()
        while left > 0:
            last, now = now, now * 0.5
            left = left - 2
        last = last * 2
        last += 1
        return last + y


class InsertedAndWritten(nn.Module):
    """PyTorch would take the branch as presumed, behind one that has written already."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.tanh(x)
        parts = [x[-1]]
        if (x[0] > 0.5).any():
            parts.insert(0, x[-1])
            x[-1].sub_(0.5)
        return x * 0.5, parts[-1] + parts[0]


CASES = (
    *of(
        "tensors in lists",
        Row("appended and written to", AppendedAndWritten, SIZES, ROWS, "# appends what it writes to"),
        Row("appended and made anew", AppendedAndNew, SIZES, ROWS),
        Row("views, written to behind the loop", RowsWrittenBehind, SIZES, ROWS, "# makes views"),
        Row("copies, then a write", RowsStackedBefore, SIZES, ROWS),
        Row("the last of them, written to", LastWrittenBehind, SIZES, ROWS, "# keeps its states"),
        Row("names that are traded", NamesTradedInTurns, FLAT, None, "# may write to y"),
        Row("names that are traded, and a copy", NamesTradedAndCopied, FLAT),
        Row("all, with a counter", AllOfThemCounted, FLAT, None, "# counts"),
    ),
    *of(
        "containers of several names",
        Row("one of two lists", EitherList, FLAT),
        Row("new lists", NewLists, FLAT),
        Row("a list bound to two names", ListOfTwoNames, FLAT),
        Row("a dataclass that changes its fields", ScaledInBranches, FLAT),
        Row("a dataclass that shares a list", ReplacedInABranch, FLAT),
        Row("an item in front, and a write", InsertedAndWritten, FIXED),
        Row("a deque that stays full", LastTwo, FLAT),
        Row("a deque that grows", DequeThatGrows, FLAT),
        Row("the order of a dict", OrderOfADict, FLAT),
        Row("text of a size as a key", TextAsKey, SIZES, ROWS, "# text of a size"),
    ),
)
