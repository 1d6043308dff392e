"""Branches on data: what they change beside their names, short circuits, `super()`."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import ELSEWHERE, FIXED, FLAT, REFUSED, ROWS, SIZES, Row, of

SEEN: list[Any] = []
"""Changed by models of this file."""

HELD: dict[str, Any] = {}
"""Likewise."""

COUNT = 0


class BufferAssigned(nn.Module):
    """A buffer that is another tensor after a branch, and after a loop of dynamically many iterations."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("last", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.mean = self.mean * 0.5 + x.mean(0)
        for row in x:
            self.last = self.last * 0.5 + row
        return x * self.mean + self.last


class ListOfNumbers(nn.Module):
    """The list is made in each call, so its values are no effect on what is outside."""

    def forward(self, x: Tensor) -> Tensor:
        factors = [1.0]
        if x.sum() > 0:
            factors.append(2.0)
            x = x + 1
        return x * sum(factors)


class Counter:
    """A plain object with a tensor and a number."""

    def __init__(self) -> None:
        self.total, self.count = torch.zeros(4), 0

    def add(self, x: Tensor) -> None:
        self.total = self.total + x
        self.count += 1


class LocalObject(nn.Module):
    """The object is of this call."""

    def forward(self, x: Tensor) -> Tensor:
        counter = Counter()
        if x.sum() > 0:
            counter.add(x)
        counter.add(x * 2)
        return counter.total * counter.count


class ObjectOfTheModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter()

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # changes an object
            self.counter.add(x)  # changes an object
        return x + self.counter.total * self.counter.count


class Nonlocal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = torch.zeros(())

        def step(y: Tensor) -> Tensor:
            nonlocal steps
            steps = steps + 1
            return y * 2

        if x.sum() > 0:
            x = step(x)
        else:
            x = step(step(x))
        return x + steps


class NonlocalNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        for row in x:
            if row.sum() > 0:
                step()
        return x * steps


def remember(x: Tensor) -> Tensor:
    SEEN.append(x.shape)  # changes a list of the module
    return x * 2


class GlobalList(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # changes a list of the module
            x = remember(x)
        return x


class GlobalListRead(nn.Module):
    """Data decides how many values the global list has, but it is cleared in front."""

    def forward(self, x: Tensor) -> Tensor:
        SEEN.clear()
        if x.sum() > 0:
            SEEN.append(x + 1)
        if x.sum() > 1:
            SEEN.append(x * 2)
        total = x
        for each in SEEN:
            total = total + each
        SEEN.clear()
        return total


def count_call() -> None:
    global COUNT
    COUNT += 1  # raises a number of the module


class GlobalNumber(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # raises a number of the module
            count_call()
        return x * 2


class GlobalDict(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # fills a dict of the module
            HELD["last"] = x  # fills a dict of the module
        return x + 1


class Deque(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        last: deque[Tensor] = deque([x[0]], maxlen=2)
        for row in x:
            if row.sum() > 0:
                last.append(row)
        return torch.stack(list(last)).sum(0)


def fresh(model: type[nn.Module]) -> Any:
    """Makes the model after what is global was reset."""

    def build() -> nn.Module:
        global COUNT
        SEEN.clear()
        HELD.clear()
        COUNT = 0
        return model()

    return build


class BufferInACallee(nn.Module):
    """`and` and `or` whose right side writes to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def counted(self, x: Tensor) -> Tensor:
        self.count += 1
        return x.max() > 1

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0 and self.counted(x):
            x = x * 2
        if x.mean() > 0 or self.counted(x):
            x = x + 1
        return x + self.count


class ShortStatement(nn.Module):
    """Short circuits as statements, and the value of one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def note(self, by: float) -> Tensor:
        self.count += by
        return self.count > 2

    def forward(self, x: Tensor) -> Tensor:
        (x.sum() > 0) and self.note(1.0)
        (x.sum() > 0) or self.note(10.0)
        both = (x[0] > 0) or self.note(100.0)
        return torch.where(both, x, -x) + self.count


class ConditionalExpression(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()

        def lowered() -> Tensor:
            y.sub_(1.0)
            return y * 2

        z = lowered() if x.sum() > 0 else y
        return y + z


class ChainedComparison(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("asked", torch.zeros(()))

    def limit(self, value: float) -> Tensor:
        self.asked += 1
        return self.asked * value

    def forward(self, x: Tensor) -> Tensor:
        if 0 < x.sum() < self.limit(3.0):
            x = x + 1
        return x * self.asked


class ShortCircuitOutside(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        (x.sum() > 0) and SEEN.append(1)  # on one way
        return x * 2


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return x * 2

    def noted(self, x: Tensor) -> Tensor:
        SEEN.append(1)  # and a list of the module
        return x + 1

    @property
    def level(self) -> Tensor:
        return self.count * 0.5


class SuperInABranch(Base):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = super().forward(x)
        return x + self.level


class SuperInALoop(Base):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for row in x:
            total = total + super().forward(row)
            if total.sum() > 2:
                total = super().forward(total) - 1
        return total * self.level


class SuperWithClass(Base):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return super(SuperWithClass, self).forward(x) + __class__.__mro__.index(Base)
        return x


class SuperWithEffect(Base):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # and a list of the module
            x = super().noted(x)
        return x


CASES = (
    *of(
        "effects in what a branch calls",
        Row("a buffer that is assigned", BufferAssigned, SIZES, ROWS),
        Row("a list of numbers", ListOfNumbers, FLAT),
        Row("an object of the call", LocalObject, FLAT),
        Row("nonlocal", Nonlocal, FLAT),
        Row("nonlocal number in a loop", NonlocalNumber, SIZES, ROWS),
        Row("a global list that is cleared", fresh(GlobalListRead), FLAT, known_gap=REFUSED),
        Row("a deque of rows", Deque, FIXED, known_gap=REFUSED),
        Row("an object of the model", ObjectOfTheModel, FLAT, None, "# changes an object", known_gap=ELSEWHERE),
        Row("a global list", fresh(GlobalList), FLAT, None, "# changes a list of the module"),
        Row("a global number", fresh(GlobalNumber), FLAT, None, "# raises a number of the module"),
        Row("a global dict", fresh(GlobalDict), FLAT, None, "# fills a dict of the module"),
    ),
    *of(
        "short circuit",
        Row("a buffer written in a callee", BufferInACallee, FLAT),
        Row("as a statement", ShortStatement, FLAT),
        Row("a conditional expression", ConditionalExpression, FLAT),
        Row("a chained comparison", ChainedComparison, FLAT),
        Row("a global list", fresh(ShortCircuitOutside), FLAT, None, "# on one way"),
    ),
    *of(
        "super() without arguments",
        Row("in a branch", SuperInABranch, FLAT),
        Row("in a loop", SuperInALoop, SIZES, ROWS),
        Row("with __class__", SuperWithClass, FLAT),
        Row("with an effect outside", fresh(SuperWithEffect), FLAT, None, "# and a list of the module"),
    ),
)
