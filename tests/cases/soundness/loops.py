"""Loops: rows of a tensor that the body writes to, the target behind the loop, ranges that are empty or go back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import COLUMNS, FLAT, REFUSED, ROWS, SIZES, WIDE, Inputs, Row, drawn, of


class RowsWrittenThroughAName(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        y = x
        h = torch.zeros(2)
        for t in range(x.shape[1]):
            h = torch.tanh(h + x[:, t])
            if t + 1 < x.shape[1]:
                y[:, t + 1] = y[:, t + 1] + h
        return x + h[:, None]


class RowsWrittenThroughAView(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        last = x[:, -1]
        total = torch.zeros(2)
        for t in range(x.shape[1]):
            total = total + x[:, t]
            last.add_(1.0)
        return total


class RowsOfABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.arange(3.0))

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for row in x:
            self.seen[1] = self.seen[1] + row.sum()
            total = total + row * self.seen[1] + self.seen[0]
            self.seen[0] = self.seen[1]
        return total


class RowsOfAnAttribute(nn.Module):
    kept: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.kept = x
        total = torch.zeros(4)
        for t in range(x.shape[0]):
            total = total + self.kept[t]
            self.kept = self.kept * 0.5
        return total


class RowsThroughAClosure(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()

        def lower(t: int) -> None:
            x[t:] -= 0.25

        total = torch.zeros(4)
        for t in range(x.shape[0]):
            lower(t)
            total = total + x[t]
        return total


class RowsInAContainer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held = {"x": x.clone()}
        total = torch.zeros(4)
        for t in range(x.shape[0]):
            total = total + held["x"][t]
            held["x"] *= 0.5
        return total + held["x"].sum(0)


class RowsAhead(nn.Module):
    """Each turn reads what the one before it wrote."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        for t in range(1, x.shape[0]):
            x[t] = x[t] + x[t - 1] * 0.5
        return x


class RankThatGrows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for row in x:  # each turn adds an axis
            h = (h + row).unsqueeze(0)  # each turn adds an axis
        return h


class TargetAfterBreak(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        t = 0
        for t in range(x.shape[0]):
            if x[t, 0] < 0:
                break
        return x + t


class TargetAfterItemBreak(nn.Module):
    """The target is a row, and there is an `else`."""

    def forward(self, x: Tensor) -> Tensor:
        found = 0.0
        for row in x:
            if row.sum() < 0:
                found = 1.0
                break
        else:
            found = 2.0
        return x + row * found


class TargetAfterStaticBreak(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for step in (1, 2, 3):
            x = x * 0.5 + step
            if x.sum() > 9:
                break
        return x * step


class TargetAfterAWhole(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for t, row in enumerate(x):
            total = total + row
        return total * t + row


class TargetSetInTheBody(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for t in range(x.shape[0]):
            t = t * 2
            total = total + x.sum(0) * t
        return total + t


class NameOfAnOutput(nn.Module):
    """Data decides under which key the result is returned."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for name in ("small", "large", "huge"):
            x = x * 2
            if x.sum() > 4:  # decides on a key
                break  # decides on a key
        return {name: x}  # decides on a key


class ElseOfAWhile(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = torch.zeros(())
        while k < 3:
            x = x * 0.5
            k = k + 1
            if x.sum() > 1:
                break
        else:
            x = x - 1
        return x * k


class ReturnInALoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for t, row in enumerate(x):
            if row.sum() < -1:
                return h * t
            h = h + row
        return h


class ContinueOnData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        taken, count = torch.zeros(4), 0
        for row in x:
            if row.sum() < 0:
                continue
            taken = taken + row
            count += 1
        return taken / (count + 1)


class NegativeRange(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for t in range(-1, x.shape[0] - 1):
            total = total * 0.5 + x[t] * t
        return total


class Downwards(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for t in range(x.shape[0] - 1, -1, -1):
            h = torch.tanh(h + x[t] * t)
        return h


class Stepped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for t in range(1, x.shape[0], 2):
            h = h * 2 + x[t]
        return h


class NoTurns(nn.Module):
    """There are no turns for a size of 2."""

    def forward(self, x: Tensor) -> Tensor:
        h = x[0]
        for t in range(2, x.shape[0]):
            h = h + x[t]
        return h


class NoTurnsOnData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = x[0]
        for t in range(int((x[:, 0] > 0.5).sum())):
            h = h + x[t]
        return h


class ToATensor(nn.Module):
    """A range asks tensors for the whole numbers in them."""

    def forward(self, x: Tensor) -> Tensor:
        count = (x[:, 0] > 0.5).sum()
        h = x[0]
        for t in range(torch.zeros(1, dtype=torch.int32), count):
            h = h * 0.5 + x[t]
        return h


class StepOfData(nn.Module):
    """A step of 0 is an error, and data decides on it."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        step = int(x[0, 0].abs()) + 1
        for t in range(0, x.shape[0], step):
            total = total + x[t]
        return total


class KindOfALoopedValue(nn.Module):
    """The dtype of the result is int64 if there is no turn."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4, dtype=torch.int64)
        for row in x[2:]:  # makes the integers floats
            total = total + row  # makes the integers floats
        return total


class ListFilled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for row in x:
            rows.append(row * (len(rows) + 1))
            if len(rows) > 1:
                rows[-1] = rows[-1] + rows[-2]
        return torch.stack(rows)


class ListFilledOnData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = [x[0]]
        for row in x:
            if row.sum() > 0:
                rows.append(row)
        return torch.stack(rows).sum(0) * len(rows)


class DictFilled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        held: dict[str, Tensor] = {"last": x[0]}
        for t in range(x.shape[0]):
            if x[t].sum() > held["last"].sum():
                held["last"] = x[t]
                held["best"] = x[t] * t
        return held["last"] + held.get("best", x[0])


class ListReturned(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        rows = [x[0]]
        for row in x:  # gives outputs by data
            if row.sum() > 0:  # gives outputs by data
                rows.append(row)  # gives outputs by data
        return rows  # gives outputs by data


class PickedWhileAnyAreLeft(nn.Module):
    """Suppression of what is near: some data is presumed of an `if`, but not of a `while`, which would not end."""

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        order = x[:, 0].argsort(descending=True)
        while order.numel() > 0:  # turns as often as data says
            best = order[0]
            kept.append(best)
            order = order[1:][(x[order[1:], 1] - x[best, 1]).abs() > 0.5]
        return torch.stack(kept)


class Cholesky(nn.Module):
    """Rows of rows: an element is read by two loops' numbers."""

    def forward(self, x: Tensor) -> Tensor:
        a, n = x @ x.T + torch.eye(x.shape[0]), x.shape[0]
        lower = torch.zeros_like(a)
        for i in range(n):
            for j in range(i + 1):
                rest = (lower[i, :j] * lower[j, :j]).sum()
                lower[i, j] = torch.sqrt(a[i, i] - rest) if i == j else (a[i, j] - rest) / lower[j, j]
        return lower


SQUARES: Inputs = tuple((drawn(n, n),) for n in (4, 3, 1, 6))

CASES = (
    *of(
        "rows taken before the loop",
        Row("elements of rows", Cholesky, SQUARES, ({0: "n", 1: "n"},)),
        Row("written through another name", RowsWrittenThroughAName, WIDE, COLUMNS),
        Row("written through a view", RowsWrittenThroughAView, WIDE, COLUMNS),
        Row("next to writes to a buffer", RowsOfABuffer, SIZES, ROWS),
        Row("of an attribute that is assigned anew", RowsOfAnAttribute, SIZES, ROWS),
        Row("written in a closure", RowsThroughAClosure, SIZES, ROWS),
        Row("written through a container", RowsInAContainer, SIZES, ROWS),
        Row("read after they were written", RowsAhead, SIZES, ROWS),
        Row("of a carry whose rank grows", RankThatGrows, SIZES, ROWS, "# each turn adds an axis"),
    ),
    *of(
        "loop variable after the loop",
        Row("after a break", TargetAfterBreak, SIZES, ROWS),
        Row("a row after a break, and else", TargetAfterItemBreak, SIZES, ROWS),
        Row("of a fixed loop after a break", TargetAfterStaticBreak, FLAT),
        Row("after all turns", TargetAfterAWhole, SIZES, ROWS),
        Row("set in the body", TargetSetInTheBody, SIZES, ROWS),
        Row("the name of an output", NameOfAnOutput, FLAT, None, "# decides on a key"),
        Row("else of a while", ElseOfAWhile, FLAT),
        Row("return in a loop", ReturnInALoop, SIZES, ROWS),
        Row("continue on data", ContinueOnData, SIZES, ROWS),
    ),
    *of(
        "negative and empty ranges",
        Row("from -1", NegativeRange, SIZES, ROWS),
        Row("downwards", Downwards, SIZES, ROWS),
        Row("in steps of two", Stepped, SIZES, ROWS),
        Row("empty for one size", NoTurns, SIZES, ROWS),
        Row("empty for some data", NoTurnsOnData, SIZES, ROWS),
        Row("to a tensor", ToATensor, SIZES, ROWS),
        Row("in steps of data", StepOfData, SIZES, ROWS, known_gap=REFUSED),
        Row("a dtype without turns", KindOfALoopedValue, SIZES, ROWS, "# makes the integers floats"),
    ),
    *of(
        "containers filled in loops",
        Row("a list that is filled and read", ListFilled, SIZES, ROWS),
        Row("a list that data fills", ListFilledOnData, SIZES, ROWS),
        Row("a dict that data fills", DictFilled, SIZES, ROWS, known_gap=REFUSED),
        Row("a list whose length data decides on", ListReturned, SIZES, ROWS, "# gives outputs by data"),
        Row("a list that is filled while any are left", PickedWhileAnyAreLeft, SIZES, ROWS, "# turns as often"),
    ),
)
