"""Programs that fail where one does not look first: a lambda, a comprehension, a hook, a property, another file."""

from __future__ import annotations

import functools
import math
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.cases.failures import functions
from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)


class Leaf(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.abs().amax() < 10 else x / 10


class Stage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.leaf = Leaf()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leaf(x) + 1


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Stage(), Stage()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x)
        return x


def checked(forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(forward)
    def run(self: nn.Module, *args: Any, **kwargs: Any) -> torch.Tensor:
        result = forward(self, *args, **kwargs)
        if torch.isnan(result).any():
            raise ValueError("not a number")
        return result

    return run


class Decorated(nn.Module):
    @checked
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.exp()


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = lambda x: x if float(x.mean()) > 0 else -x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gate(x)


class RowsAbove(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = [row for row in x if row.sum() > 0]
        return torch.stack(rows)


class RowsFiltered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(list(filter(lambda row: row[0] > 0, x)))


class InOtherFile(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functions.normalized(x)


class InOtherComprehension(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(functions.above(x, 0.5)).sum()


class InContextManager(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with functions.finite(x):
            return x.exp()


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.linear.register_forward_hook(self.watch)

    def watch(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        if output.norm() > 1e3:
            raise RuntimeError("diverged")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().amax().item()
        if scale == 0:
            return x
        return (x / scale).round() * scale

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class InFunction(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Round.apply(x)


class InProperty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6))

    @property
    def is_large(self) -> bool:
        return self.weight.amax().item() > 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.is_large:
            return x
        return x * self.weight


class InGetattr(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4))

    def __getattr__(self, name: str) -> Any:
        if name == "limit":
            return int(self.table.amax().item())
        return super().__getattr__(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[: self.limit]


class OwnCall(nn.Module):
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = super().__call__(x)
        return y if y.sum() > 0 else y + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class BoundLater(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.forward = types.MethodType(lambda self, x: x.exp() if x.amax() < 80 else x, self)


class Halving(nn.Module):
    def halves(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        while x.abs().amax() > 1:
            x = x / 2
            yield x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x, *self.halves(x)]).sum(0)


class Reduced(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functools.reduce(lambda a, b: a if a.sum() > b.sum() else b, x)


class LargestBy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return max(x.unbind(0), key=lambda row: row.norm())


class InVmap(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row if row.sum() > 0 else -row)(x)


class OverLines(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(
            x > 0,
            torch.full_like(
                x,
                math.floor(x.amax()),
            ),
            x,
        )


class TextOfItem(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key = str(x.argmax().item())
        return x * {"1": 2.0}.get(key.zfill(2), 1.0)


class TextOfItems(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        text = "-".join(f"{index}" for index in x.argmax(-1).tolist())
        return x * (2 if "3" in text else 1)


class ListOfNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = [0.5, 1.0, 2.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scales[x.mean(0).argmax() % 3]


class ListOfLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        which = x.mean(0).argmax() % 3
        return self.experts[which](x)


class EachNonzero(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = torch.zeros_like(x)
        for row, column in torch.nonzero(x > 0):
            result[row, column] = x[row, column] * 2
        return result


class Matched(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        match x.argmax().item() % 2:
            case 0:
                return x
            case _:
                return -x


class Walrus(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while (gap := (x - x.mean()).abs().amax()) > 3:
            x = x.clamp(-gap / 2, gap / 2)
        return x


class Chained(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if 0 < x.mean() < 1 else x.sigmoid()


class AnyOfRows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if any(row.sum() > 100 for row in x):
            return x
        return x.cumsum(0)


class Turns(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.argmax() % 3):
            x = x + 1
        return x


class Interpolated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * np.interp(x.mean().item(), [0, 1], [1, 2])


class Distinct(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        seen = set(ids.tolist())
        return ids * len(seen)


class Memo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memo: dict[Any, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x not in self.memo:
            self.memo[x] = x * 2
        return self.memo[x]


class PatternOutput(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[int, Any]:
        pattern = re.compile("a")
        return {0: x, 1: pattern}


def row(name: str, kind: str, at: str, model: Callable[[], nn.Module], rule: str = "FXP1002") -> FailureCase:
    return FailureCase(name, kind, rule, at, model, (X,))


def outside(name: str, kind: str, at: str, model: Callable[[], nn.Module]) -> FailureCase:
    return FailureCase(name, kind, "FXP1002", at, model, (X,), written_in=functions.__file__)


CASES = (
    row("two layers down", "inner layer", "return x if «x.abs().amax() < 10» else", Nested),
    row("in a decorator", "decorator", "if «torch.isnan(result).any()»:", Decorated),
    row("in a lambda", "lambda", "lambda x: x if «float(x.mean())» > 0", Gated),
    row("in a comprehension", "comprehension", "for row in x if «row.sum() > 0»]", RowsAbove),
    row("in a filter", "comprehension", "torch.stack(«list(filter(lambda row: row[0] > 0, x))»)", RowsFiltered),
    outside("in another file", "another file", "if «total.amin() <= 0»:", InOtherFile),
    outside("a comprehension elsewhere", "another file", "if «row.amax().item() > limit»", InOtherComprehension),
    outside("in a context manager", "context manager", "if «torch.isinf(x).any()»:", InContextManager),
    row("in a hook", "hook", "if «output.norm() > 1e3»:", Hooked),
    row("in a function of autograd", "autograd", "if «scale == 0»:", InFunction),
    row("in a property", "property", "if «self.is_large»:", InProperty),
    row("in __getattr__", "property", "return «int(self.table.amax().item())»", InGetattr),
    row("in __call__", "call", "return y if «y.sum() > 0» else y + 1", OwnCall),
    row("a forward bound later", "call", "x.exp() if «x.amax() < 80» else x, self)", BoundLater),
    row("in a generator", "generator", "while «x.abs().amax() > 1»:", Halving),
    row("in a reduction", "lambda", "a if «a.sum() > b.sum()» else b", Reduced),
    row("the largest by a key", "builtin", "return «max(x.unbind(0), key=lambda row: row.norm())»", LargestBy),
    row("in vmap", "vmap", "row if «row.sum() > 0» else -row)", InVmap),
    row("a call over several lines", "math", "«math.floor(x.amax())»,", OverLines),
    row("text of an item", "text", "key = «str(x.argmax().item())»", TextOfItem, "FXP1024"),
    row("text of many items", "text", '«f"{index}"» for index', TextOfItems, "FXP1024"),
    row("a number chosen by a tensor", "index", "x * «self.scales[x.mean(0).argmax() % 3]»", ListOfNumbers),
    row("a layer chosen by a tensor", "index", "return «self.experts[which]»(x)", ListOfLayers),
    row("a turn for each nonzero", "loop", "in «torch.nonzero(x > 0)»:", EachNonzero),
    row("a match", "match", "case «0»:", Matched),
    row("a walrus", "while", "while «(gap := (x - x.mean()).abs().amax()) > 3»:", Walrus),
    row("a chained comparison", "ternary", "x if «0 < x.mean() < 1» else", Chained),
    row("any of the rows", "builtin", "if «any(row.sum() > 100 for row in x)»:", AnyOfRows),
    row("turns by a tensor", "loop", "in «range(x.argmax() % 3)»:", Turns),
    row("interpolated by numpy", "numpy", "x * «np.interp(x.mean().item(), [0, 1], [1, 2])»", Interpolated),
    FailureCase(
        "a set of items", "builtin", "FXP1002", "seen = «set(ids.tolist())»", Distinct, (torch.tensor([1, 2, 2]),)
    ),
    row("an attribute with entries", "mutation", "«self.memo[x] = x * 2»", Memo, "FXP1016"),
    row("a pattern as output", "output", "«return {0: x, 1: pattern}»", PatternOutput, "FXP1011"),
)
