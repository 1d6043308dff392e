"""Sizes that were asked to be dynamic and cannot be, and requests that make no sense."""

from __future__ import annotations

import operator

import torch
from torch import nn
from torch.export import Dim

from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)
ROWS = {"dynamic_shapes": ({0: "rows"},)}


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.reshape(4, -1)


class AddedTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.position = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.position


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[0]]


class SizeBranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 8:
            raise ValueError("too many rows")
        return x + 1


class SizeEquals(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] != 4:
            raise ValueError("four rows")
        return x * 2


class SizeToInt(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * operator.index(x.shape[0])


class Resized(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.resize_(x.shape[0], 3)
        return y * 2


class SizeLoop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x[0]
        for row in range(1, x.shape[0]):
            found = torch.cat((found * 0.5, x[row]))
        return found


class Unbound(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *rest = x.unbind(0)
        return first + len(rest)


class Tied(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # added
        return x + y


class TiedByCat(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], dim=1)


class WideLinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class ShapeTensor(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sizes = torch.tensor([operator.index(size) for size in x.shape])
        return x.sum() * sizes.prod()


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unfold(0, 8, 1).mean(0)


AB = {"dynamic_shapes": ({0: Dim("a")}, {0: Dim("b")})}

CASES = (
    FailureCase(
        "size tied to a multiple", "bounded size", "FXP2002", "return «y.reshape(4, -1)»", Rows, (X,), {}, ROWS
    ),
    FailureCase(
        "size fixed by a table", "fixed size", "FXP2001", "return «x + self.position»", AddedTable, (X,), {}, ROWS
    ),
    FailureCase("size kept apart", "fixed size", "FXP2001", "if «x.shape[0] != 4»:", SizeEquals, (X,), {}, ROWS),
    FailureCase(
        "size fixed by index",
        "fixed size",
        "FXP2001",
        "return x * «operator.index(x.shape[0])»",
        SizeToInt,
        (X,),
        {},
        ROWS,
    ),
    FailureCase(
        "size fixed by a loop", "fixed size", "FXP2001", "for row in «range(1, x.shape[0])»:", SizeLoop, (X,), {}, ROWS
    ),
    FailureCase(
        "size fixed by unbind", "fixed size", "FXP2001", "first, *rest = «x.unbind(0)»", Unbound, (X,), {}, ROWS
    ),
    FailureCase(
        "size fixed by a list of sizes",
        "fixed size",
        "FXP2001",
        "[«operator.index(size)» for size in",
        ShapeTensor,
        (X,),
        {},
        ROWS,
    ),
    FailureCase(
        "size fixed by a weight",
        "fixed size",
        "FXP2001",
        "return «self.linear(x)»",
        WideLinear,
        (X,),
        {},
        {"dynamic_shapes": ({1: "width"},)},
    ),
    FailureCase(
        "size bounded by a table",
        "bounded size",
        "FXP2002",
        "x + «self.table[: x.shape[0]]»",
        Positions,
        (X,),
        {},
        {"dynamic_shapes": ({0: "rows"},)},
    ),
    FailureCase(
        "size bounded by a branch",
        "bounded size",
        "FXP2002",
        "if «x.shape[0] > 8»:",
        SizeBranch,
        (X,),
        {},
        {"dynamic_shapes": ({0: "rows"},)},
    ),
    FailureCase(
        "size bounded by windows",
        "bounded size",
        "FXP2002",
        "«x.unfold(0, 8, 1)»",
        Windows,
        (torch.randn(12, 6),),
        {},
        {"dynamic_shapes": ({0: "rows"},)},
    ),
    FailureCase(
        "two sizes that must be equal",
        "tied sizes",
        "FXP2003",
        "return «x + y»",
        Tied,
        (X, X),
        {},
        {"dynamic_shapes": ({0: Dim("a")}, {0: Dim("b")})},
    ),
    FailureCase(
        "two sizes tied by cat",
        "tied sizes",
        "FXP2003",
        "return «torch.cat([x, y], dim=1)»",
        TiedByCat,
        (X, X),
        {},
        {"dynamic_shapes": ({0: Dim("a")}, {0: Dim("b")})},
    ),
    FailureCase(
        "an example outside its own bounds",
        "invalid request",
        "FXP2007",
        "«def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # added»",
        Tied,
        (X, X),
        {},
        {"dynamic_shapes": ({0: Dim.AUTO(min=5)}, None)},
    ),
    FailureCase("resized in place", "plain numbers", "FXP1003", "«y.resize_(x.shape[0], 3)»", Resized, (X,), {}, ROWS),
)
