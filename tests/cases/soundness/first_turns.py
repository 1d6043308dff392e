"""Loops whose first turn is another than those behind it, and lists that turns read while they append to them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ROWS, SIZES, Inputs, Row, drawn, of


class StateFromNone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        steps = []
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
            steps.append(h)
        return torch.stack(steps, 1), h


class PairFromNone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.LSTMCell(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        state = None
        for row in x:
            state = self.cell(row[None], state)
        return state  # type: ignore[return-value]  # there is a row


class ChosenWhereNone(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = None
        for row in x:
            h = row if h is None else h * 0.5 + row
        return h  # type: ignore[return-value]  # there is a row


class DifferencesToTheLast(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        last, steps = None, []
        for t in range(x.size(0)):
            if last is not None:
                steps.append(x[t] - last)
            last = x[t]
        return torch.stack(steps) if len(steps) > 0 else x


class FirstByItsNumber(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        for i, row in enumerate(x):
            if i == 0:
                least, most = row, row * 2
            else:
                least, most = torch.minimum(least * 0.9, row), torch.maximum(most, row)  # type: ignore[possibly-unbound, arg-type]  # is bound by the first turn
        return least, most  # type: ignore[possibly-unbound]  # the same


class BestOfNone(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor | None, Tensor]:
        best, place = None, -1
        for i, row in enumerate(x):
            if best is None or row.sum() > best:
                best, place = row.sum(), i
        return best, torch.tensor(place)


class LeftByData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = None
        for row in x:
            h = row if h is None else h * 0.5 + row
            if h.sum() > 2:
                break
        return h  # type: ignore[return-value]  # there is a row


class SumThatIsBroadcast(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one, whole = torch.zeros(1), torch.zeros(4, dtype=torch.long)
        for row in x:
            one, whole = one * 0.5 + row, whole * 0.5 - row
        return one, whole


class AttributeOfNone(nn.Module):
    kept: Tensor | None

    def forward(self, x: Tensor) -> Tensor | None:
        self.kept = None
        for row in x:
            self.kept = row if self.kept is None else self.kept * 0.5 + row
        return self.kept


class ErrorInTheFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h, steps = None, [x[0]]
        for row in x:
            try:
                steps.append(h + row)  # type: ignore[operator]  # which is the point
            except TypeError:
                h = row
        return torch.stack(steps)


class NoneWhereDataLeaveNothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = None
        for row in x[x[:, 0] > 0]:  # there may be none
            h = row if h is None else h * 0.5 + row
        return x[0] if h is None else h


class TwoFirstTurns(nn.Module):
    def forward(self, x: Tensor) -> Tensor | None:
        one = two = None
        for row in x:  # two turns are of another kind
            if one is None:
                one = row
            elif two is None:
                one, two = row, one
            else:
                one, two = row + two * 0.5, one
        return one


class StateThatIsWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        x, h = x * 1, None
        for row in x:  # writes to the row before
            if h is not None:
                h.add_(row)
            h = row
        return x, h


class NoneUnlessFound(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y, place = x.clone(), None
        for i in range(y.shape[0]):
            if y[i].abs().max() > 2:
                place = i
                break
        if place is not None:  # data have decided whether it is None
            y[place + 1 :] += 1
        return y


class NoneUnlessAny(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found = None
        for row in x:
            if row.abs().max() > 2:
                found = row
        return x if found is None else torch.stack([found, found])  # data decide whether it is None


class LastElement(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps = [x[0]]
        for row in x[1:]:
            steps.append(steps[-1] * 0.9 + row * 0.1)
        for row in x[1:]:
            steps += [steps[-1] - row]
        return torch.stack(steps), steps[-1]


class LastElementBehindTheFirst(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps: list[Tensor] = []
        for i, row in enumerate(x):
            if i == 0:
                steps.append(row)
            else:
                steps.append(steps[-1] * 0.9 + row * 0.1)
        return torch.stack(steps)


class LastElementIfAny(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps: list[Tensor] = []
        others: list[Tensor] = []
        for row in x:
            steps.append(row if not steps else steps[-1] * 0.9 + row)
            if len(others) > 0:
                row = row + others[-1]
            others.append(row)
        return torch.stack(steps), torch.stack(others)


class LastElementOfSome(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rising = [x[0]]
        for row in x[1:]:
            if row.sum() > rising[-1].sum():
                rising.append(row)
        return torch.stack(rising), rising[-1]


class ElementBeforeByNumber(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps, others = [x[0]], [x[0]]
        for i in range(1, x.shape[0]):
            steps.append(steps[i - 1] + x[i])
            others.append(others[len(others) - 1] - x[i])
        return torch.stack(steps), torch.stack(others)


class LengthInTheTurn(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        all_rows, some = [], [x[0]]
        for row in x:
            all_rows.append(row * len(all_rows))
            if row.sum() > 0 and len(some) < 3:
                some.append(row * len(some))
        return torch.stack(all_rows), torch.stack(some)


class LastElementWrittenTo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = [x[0] * 1]
        for row in x[1:]:  # writes to the last of the list
            steps[-1].mul_(2)
            steps.append(steps[-1] + row)
        return torch.stack(steps)


class LastElementWrittenToBehind(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = [x[0] * 1]
        for row in x[1:]:  # fills a list of which the last is written to
            steps.append(steps[-1] + row)
        steps[-1].mul_(2)
        return torch.stack(steps)


class LastElementReplaced(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = [x[0]]
        for row in x[1:]:  # replaces the last of the list
            steps[-1] = steps[-1] * 2
            steps.append(row)
        return torch.stack(steps)


class ElementBeforeThat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = [x[0], x[0] * 2]
        for row in x:  # reads the last element but one
            steps.append(steps[-2] + row)
        return torch.stack(steps)


class Emptied(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps: list[Tensor] = []
        for row in x:
            steps.clear()
            steps.append(row)
        return torch.stack(steps)


ONE: Inputs = (*SIZES, (drawn(1, 4, seed=3),), (drawn(7, 4, seed=4),))
"""Inputs of [n, 4], one of them with a single row."""

STEPS: Inputs = tuple((drawn(*sizes, 4),) for sizes in ((2, 5), (3, 1), (1, 7), (4, 2)))
"""Inputs of [batch, time, 4]."""

STEPPED = ({0: "batch", 1: "time"},)

CASES = (
    *of(
        "first turns of their own",
        Row("a state that is None before", StateFromNone, STEPS, STEPPED),
        Row("a tuple that is None before", PairFromNone, ONE, ROWS),
        Row("a choice by None", ChosenWhereNone, ONE, ROWS),
        Row("differences to the row before", DifferencesToTheLast, ONE, ROWS, or_right=True),
        Row("a branch by the number of the turn", FirstByItsNumber, ONE, ROWS),
        Row("the best of none", BestOfNone, ONE, ROWS),
        Row("a loop that data leave", LeftByData, ONE, ROWS),
        Row("a sum that is broadcast, or of another dtype", SumThatIsBroadcast, ONE, ROWS),
        Row("an attribute that is None before", AttributeOfNone, ONE, ROWS),
        Row("an error that the turn catches", ErrorInTheFirst, ONE, ROWS),
        Row("of as many turns as data tell", NoneWhereDataLeaveNothing, ONE, ROWS, "# there may be none"),
        Row("two of them", TwoFirstTurns, ONE, ROWS, "# two turns are of another kind"),
        Row("a row that the next turn writes to", StateThatIsWrittenTo, ONE, ROWS, "# writes to the row before"),
    ),
    *of(
        "what is None before a loop and set in it",
        Row("by a branch that leaves", NoneUnlessFound, ONE, ROWS, "# data have decided whether"),
        Row("by a branch", NoneUnlessAny, ONE, ROWS, "# data decide whether it is None"),
    ),
    *of(
        "lists read while they are filled",
        Row("the last element", LastElement, ONE, ROWS),
        Row("the last element, behind the first turn", LastElementBehindTheFirst, ONE, ROWS),
        Row("the last element, if there is one", LastElementIfAny, ONE, ROWS),
        Row("the last element of those that data choose", LastElementOfSome, ONE, ROWS),
        Row("the element of the turn before", ElementBeforeByNumber, ONE, ROWS, or_right=True),
        Row("the length", LengthInTheTurn, ONE, ROWS),
        Row("the last element is written to", LastElementWrittenTo, ONE, ROWS, "# writes to the last of the list"),
        Row("the last element is written to behind", LastElementWrittenToBehind, ONE, ROWS, "# fills a list of which"),
        Row("the last element is replaced", LastElementReplaced, ONE, ROWS, "# replaces the last of the list"),
        Row("the last element but one", ElementBeforeThat, ONE, ROWS, "# reads the last element but one"),
        Row("emptied in each turn", Emptied, ONE, ROWS),
    ),
)
