"""Programs whose way or sizes depend on what a tensor holds."""

from __future__ import annotations

import math

import torch
from torch import nn

from tests.cases.failures.case import FailureCase

X = torch.randn(4, 6)


class IfOnSum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y
        return -y


class IfElse(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.mean() > 0.5:
            x = x * 3
        else:
            x = x - 3
        return x


class IfAny(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.isnan(x).any():
            x = torch.nan_to_num(x)
        return x * 2


class IfNot(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if not mask.all():
            x = x.masked_fill(~mask, 0.0)
        return x.sum(-1)


class IfAnd(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.min() > 0 and x.max() < 10:
            return x.log()
        return x.abs()


class Ternary(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        return y * 2 if y.sum() > 1 else y


class HelperBranch(nn.Module):
    """The branch is in a function that forward calls: its own line counts, not the call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return normalized(x) + 1


def normalized(x: torch.Tensor) -> torch.Tensor:
    if x.std() > 1e-6:
        return x / x.std()
    return x


class Gated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.amax() > 3:
            x = x.sigmoid()
        return x


class InnerBranch(nn.Module):
    """The branch is in a layer of a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 6), Gated(), nn.Linear(6, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class WhileOnValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.norm() > 1:
            x = x / 2
        return x


class LoopOverItem(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(int(x.abs().sum())):
            x = x + 1
        return x


class LoopOverList(nn.Module):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        counts = lengths.tolist()
        return x * sum(range(counts[0]))


class BranchOnItem(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.argmax().item()
        if count > 3:
            return x[:2]
        return x


class BranchOnFloatItem(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().max().item()
        if scale > 1.0:
            x = x / scale
        return x


class PythonMath(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / math.sqrt(x.abs().sum())


class PythonSorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = sorted(x.sum(-1))[0]
        return x - first


class TruthOfLength(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0]
        if len(found) == 0:
            return x.sum()
        return found.mean()


class SizeOfSelected(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x[x[:, 0] > 0]
        if rows.shape[0] > 2:
            rows = rows[:2]
        return rows * 2


class NonzeroBranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        where = torch.nonzero(x)
        if where.numel():
            return where.float().mean()
        return x.mean()


class Allclose(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if torch.allclose(x, x.round()) else x.round()


class Membership(nn.Module):
    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if 0 in ids:
            return x * 0
        return x + 1


class EqualTensors(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.equal(x, x.T.T):
            return x * 2
        return x


class DictKey(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = {0: 1.0, 1: 2.0}
        return x * table[int(x.argmax() > 3)]


class FormatValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("the mean is {:.3f}".format(y.mean().item()))
        return y


class FormatTensor(nn.Module):
    """Two lines that cannot be captured: the first is told."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        print("mean {:.3f}".format(y.mean()))
        return y if y.sum() > 2 else -y


class AssertOnValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        assert bool((y > -100).all()), "too small"
        return y


class RaiseOnValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if (x.abs() > 1e6).any():
            raise ValueError("too large")
        return x * 2


class RepeatByValue(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        times = n.item()
        y = x.repeat(times, 1)
        return y.view(4, -1)


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


class UniqueValues(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.unique(ids) + 1


POSITIVE = torch.rand(4, 6) + 0.5

CASES = (
    FailureCase("printed tensor", "print", "FXP1002", 'print(«"mean {:.3f}".format(y.mean())»)', FormatTensor, (X,)),
    FailureCase("if on a value", "if", "FXP1002", "if «y.sum() > 0»:", IfOnSum, (X,)),
    FailureCase("if and else", "if", "FXP1002", "if «x.mean() > 0.5»:", IfElse, (X,)),
    FailureCase("if any", "if", "FXP1002", "if «torch.isnan(x).any()»:", IfAny, (X,)),
    FailureCase("if not", "if", "FXP1002", "if «not mask.all()»:", IfNot, (X, X > 0)),
    FailureCase("if and and", "if", "FXP1002", "if «x.min() > 0» and", IfAnd, (POSITIVE,)),
    FailureCase(
        "a conditional expression", "ternary", "FXP1002", "y * 2 if «y.sum() > 1» else y", Ternary, (POSITIVE,)
    ),
    FailureCase("if in a function", "if", "FXP1002", "if «x.std() > 1e-6»:", HelperBranch, (X,)),
    FailureCase("if in an inner layer", "if", "FXP1002", "if «x.amax() > 3»:", InnerBranch, (X,)),
    FailureCase("while on a value", "while", "FXP1002", "while «x.norm() > 1»:", WhileOnValue, (X,)),
    FailureCase("loop over an item", "loop", "FXP1002", "for _ in range(«int(x.abs().sum())»):", LoopOverItem, (X,)),
    FailureCase(
        "loop over a list", "tolist", "FXP1002", "sum(«range(counts[0])»)", LoopOverList, (X, torch.tensor([1, 2, 3]))
    ),
    FailureCase("branch on an item", "item", "FXP1002", "if «count > 3»:", BranchOnItem, (X,)),
    FailureCase("branch on a float item", "item", "FXP1002", "if «scale > 1.0»:", BranchOnFloatItem, (X,)),
    FailureCase("math on a tensor", "math", "FXP1002", "x / «math.sqrt(x.abs().sum())»", PythonMath, (X,)),
    FailureCase("sorted tensors", "builtin", "FXP1002", "first = «sorted(x.sum(-1))»[0]", PythonSorted, (X,)),
    FailureCase(
        "length of what was selected", "size of values", "FXP1002", "if «len(found)» == 0:", TruthOfLength, (X,)
    ),
    FailureCase(
        "rows that were selected", "size of values", "FXP1002", "if «rows.shape[0] > 2»:", SizeOfSelected, (X,)
    ),
    FailureCase("numel of nonzero", "size of values", "FXP1002", "if «where.numel()»:", NonzeroBranch, (X,)),
    FailureCase("allclose", "comparison", "FXP1002", "x if «torch.allclose(x, x.round())» else", Allclose, (X,)),
    FailureCase(
        "value among the ids", "comparison", "FXP1002", "if «0 in ids»:", Membership, (X, torch.tensor([1, 2]))
    ),
    FailureCase("equal tensors", "comparison", "FXP1002", "if «torch.equal(x, x.T.T)»:", EqualTensors, (X,)),
    FailureCase("key of a dict", "item", "FXP1002", "table[«int(x.argmax() > 3)»]", DictKey, (X,)),
    FailureCase(
        "printed value", "print", "FXP1004", 'print(«"the mean is {:.3f}".format(y.mean().item())»)', FormatValue, (X,)
    ),
    FailureCase("assert on a value", "assert", "FXP1002", "assert «bool((y > -100).all())», ", AssertOnValue, (X,)),
    FailureCase("raise on a value", "raise", "FXP1002", "if «(x.abs() > 1e6).any()»:", RaiseOnValue, (X,)),
    FailureCase(
        "repeat by a value", "size of values", "FXP2005", "times = «n.item()»", RepeatByValue, (X, torch.tensor(4))
    ),
    FailureCase("size by a mask", "dynamic output", "FXP2005", "return «x[x > 0]» * 2", Chosen, (X,)),
    FailureCase(
        "size by unique",
        "dynamic output",
        "FXP2005",
        "«torch.unique(ids)» + 1",
        UniqueValues,
        (torch.tensor([1, 2, 2]),),
    ),
)
