"""Models that cannot be exported as asked, or are changed by it: each with the rule and the line that must be named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim


@dataclass(frozen=True)
class FailureCase:
    """`rule` must be reported at the line of `model.forward` that holds `line` (None: no line of it is asked for)."""

    name: str
    rule: str
    line: str | None
    model: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


X = torch.randn(4, 6)


class IfOnSum(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y
        return -y


class WhileOnValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.norm() > 1:
            x = x / 2
        return x


class LoopOverItem(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = int(x.abs().sum())
        for _ in range(steps):
            x = x + 1
        return x


class SliceByValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.argmax().item()
        if count > 3:
            return x[:2]
        return x


class AssertOnValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        assert bool((y > 0).all())
        return y


class Comparison(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if torch.allclose(x, x.round()) else x.round()


class Numpy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_numpy(x.detach().numpy().cumsum(0))


@torch.library.custom_op("fxport_failures::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


class NoFakeKernel(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return opaque(y)


@torch.library.custom_op("fxport_failures::shaped", mutates_args=())
def shaped(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@shaped.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class NoLowering(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = shaped(x)
        return y * 2


class NoLoweringInBlocks(nn.Module):
    """The same op in two equal layers is one finding."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([NoLowering(), NoLowering()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Rows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.reshape(4, -1)


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(16, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[0]]


class SizeBranch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 8:
            return x * 2
        return x + 1


class SizeEquals(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 4:
            return x * 2
        return x


class Tied(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0] * 2


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Written(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * scale


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(x) + 1


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.randn_like(x)
        return x + noise


class Masked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = (x > 0).to(torch.int64)
        return (1.0 - mask) * x


class Pair:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Unknown(nn.Module):
    def forward(self, pair: Pair) -> torch.Tensor:
        return pair.x + 1


class OutDtype(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.to(torch.int8)
        return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, y, y)


class UnlikeBranches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.sum(), (x,))


class NoSuchType(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(torch.bits8)


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return F.gelu(y)


def _refusing(op: Any, x: Any, *, approximate: str = "none") -> Any:
    from exporter import Unsupported

    raise Unsupported("only on Sundays")


def _raising(op: Any, x: Any, *, approximate: str = "none") -> Any:
    raise RuntimeError("no idea")


def _custom(op: Any, x: Any) -> Any:
    return op.custom("fxport.failures", "Shaped", x)


def _late() -> dict[Any, Any]:
    from exporter.lower.registry import Lowering

    gelu = torch.ops.aten.gelu.default
    return {gelu: Lowering((gelu,), lambda op, x, *, approximate="none": op.Identity(x), since=24)}


GELU = torch.ops.aten.gelu.default
ROWS = {"dynamic_shapes": ({0: "rows"},)}

CASES = (
    FailureCase("if on a value", "FXP1002", "if y.sum() > 0", IfOnSum, (X,)),
    FailureCase("while on a value", "FXP1002", "while x.norm()", WhileOnValue, (X,)),
    FailureCase("loop over an item", "FXP1002", "int(x.abs()", LoopOverItem, (X,)),
    FailureCase("branch on an item", "FXP1002", "if count > 3", SliceByValue, (X,)),
    FailureCase("assert on a value", "FXP1004", "assert bool", AssertOnValue, (X,)),
    FailureCase("allclose", "FXP1002", "torch.allclose", Comparison, (X,)),
    FailureCase("leaves torch for numpy", "FXP1004", "numpy()", Numpy, (X,)),
    FailureCase("custom op without fake kernel", "FXP1009", "return opaque(y)", NoFakeKernel, (X,)),
    FailureCase("inputs that do not fit", "FXP1010", None, Tied, (X,)),
    FailureCase("a type that is no container", "FXP1011", None, Unknown, (Pair(X),)),
    FailureCase("mutated buffer", "FXP1005", None, Counted, (X,)),
    FailureCase("mutated input", "FXP1005", None, Written, (X.clone(),)),
    FailureCase("number among the inputs", "FXP1006", None, Scaled, (X, 3.0)),
    FailureCase("dropout in training", "FXP1007", None, Dropped, (X,)),
    FailureCase("random numbers", "FXP1008", "torch.randn_like", Noisy, (X,)),
    FailureCase("size fixed by a reshape", "FXP2001", "reshape", Rows, (X,), {}, ROWS),
    FailureCase("size fixed by a comparison", "FXP2001", "== 4", SizeEquals, (X,), {}, ROWS),
    FailureCase("size bounded by a table", "FXP2002", "self.table[", Positions, (X,), {}, ROWS),
    FailureCase("size bounded by a branch", "FXP2002", "if x.shape[0] > 8", SizeBranch, (X,), {}, ROWS),
    FailureCase(
        "two sizes that must be equal",
        "FXP2003",
        "x + y",
        Tied,
        (X, X),
        {},
        {"dynamic_shapes": ({0: Dim("a")}, {0: Dim("b")})},
    ),
    FailureCase("size by values", "FXP2005", None, Chosen, (X,)),
    FailureCase(
        "an example outside its own bounds",
        "FXP2007",
        None,
        Tied,
        (X, X),
        {},
        {"dynamic_shapes": ({0: Dim.AUTO(min=5)}, None)},
    ),
    FailureCase("branches of unlike shapes", "FXP1003", "torch.cond", UnlikeBranches, (X,)),
    FailureCase("higher-order op", "FXP3007", "out_dtype(", OutDtype, (torch.ones(3, 3),)),
    FailureCase("a type that ONNX lacks", "FXP4003", "bits8", NoSuchType, (torch.ones(4, dtype=torch.uint8),)),
    FailureCase("no lowering", "FXP3001", "y = shaped(x)", NoLowering, (X,)),
    FailureCase("lowering refuses", "FXP3002", "F.gelu(y)", Gelu, (X,), {}, {"lowerings": {GELU: _refusing}}),
    FailureCase("lowering needs a newer opset", "FXP3003", "F.gelu(y)", Gelu, (X,), {}, {"lowerings": _late()}),
    FailureCase("lowering raises", "FXP3004", "F.gelu(y)", Gelu, (X,), {}, {"lowerings": {GELU: _raising}}),
    FailureCase(
        "custom node",
        "FXP3006",
        "y = shaped(x)",
        NoLowering,
        (X,),
        {},
        {"lowerings": {torch.ops.fxport_failures.shaped.default: _custom}},
    ),
    FailureCase("mixed types", "FXP4001", "(1.0 - mask)", Masked, (X,)),
)
