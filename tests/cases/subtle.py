"""Subtle faults: a lowering that is right for most numbers, and wrong at some value, size, or by little.

A row is a model with its call, the operator whose lowering goes wrong, and the wrong lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fxport.exporter.lowering.lower.registry import registered
from fxport.exporter.lowering.lowerings import LOWERINGS

aten = torch.ops.aten
D = ir.DataType


class Calls(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args, *self.layers)


@dataclass(frozen=True)
class Subtle:
    """A row. `dynamic` are the dynamic shapes of its one input."""

    model: Callable[[], nn.Module]
    args: Callable[[], tuple[Tensor, ...]]
    op: Any
    wrong: Callable[..., Any]
    dynamic: Any = None

    def lowerings(self) -> dict[Any, Callable[..., Any]]:
        """The wrong lowering, which is given the right one first."""
        right = registered(LOWERINGS)[self.op]
        return {self.op: lambda op, *args, **kwargs: self.wrong(op, right, *args, **kwargs)}


def x(*sizes: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(sizes).mul(scale).to(dtype),)


def f(function: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: Calls(function)


def scaled(factor: float) -> Callable[..., Any]:
    return lambda op, right, *args, **kwargs: op.Mul(right(op, *args, **kwargs), factor)


def shifted(by: float) -> Callable[..., Any]:
    return lambda op, right, *args, **kwargs: op.Add(right(op, *args, **kwargs), by)


def instead(build: Callable[..., Any]) -> Callable[..., Any]:
    return lambda op, right, *args, **kwargs: build(op, *args)


def argument(index: int, value: Any) -> Callable[..., Any]:
    return lambda op, right, *args, **kw: right(op, *args[:index], value, *args[index + 1 :], **kw)


def backwards(op: Any, v: Any) -> Any:
    """Sorted rows and their indices, of equals the last one first."""
    turned = op.Gather(v, op.const(list(range(7, -1, -1))), axis=1)
    rows, places = op.TopK(turned, op.const([8]), axis=-1, largest=0, outputs=2)
    return rows, op.Sub(op.const(7), places)


def deep(dtype: torch.dtype, last: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    """Two layers, a function whose lowering goes wrong, and two layers behind it."""

    def run(value: Tensor, first: nn.Module, norm: nn.Module, second: nn.Module) -> Tensor:
        return value + second(last(norm(first(value))))

    return lambda: Calls(run, nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64)).to(dtype)


BF, HF = torch.bfloat16, torch.float16
ONE_SIGN: Mapping[str, Subtle] = {
    f"{name} in {str(dtype).removeprefix('torch.')}": Subtle(deep(dtype, function), x(32, 64, dtype=dtype), op, wrong)
    for dtype in (BF, HF)
    for name, function, op, wrong in (
        ("sigmoid x 1.3", torch.sigmoid, aten.sigmoid.default, scaled(1.3)),
        ("sigmoid x 1.05", torch.sigmoid, aten.sigmoid.default, scaled(1.05)),
        ("tanh x 1.03", torch.tanh, aten.tanh.default, scaled(1.03)),
        ("gelu + 0.02", F.gelu, aten.gelu.default, shifted(0.02)),
        ("silu x 1.05", F.silu, aten.silu.default, scaled(1.05)),
        ("exp x 0.97", torch.exp, aten.exp.default, scaled(0.97)),
    )
}

DYNAMIC = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

BY_SIZE: Mapping[str, Subtle] = {
    "mean over the other size": Subtle(
        f(lambda v: v.sum(1) / v.shape[1]),
        x(4, 4),
        aten.div.Tensor,
        lambda op, right, a, b: op.Div(a, op.cast(op.Size(a), D.FLOAT)),
        DYNAMIC,
    ),
    "size of the example": Subtle(
        f(lambda v: v * v.shape[0]), x(5, 3), aten.mul.Tensor, lambda op, right, a, b: right(op, a, 5), DYNAMIC
    ),
    "at most 64": Subtle(
        f(lambda v: torch.cumsum(v, 0)),
        x(9, 3),
        aten.cumsum.default,
        lambda op, right, v, dim, **kw: op.Where(
            op.Less(op.const(64), op.Gather(op.Shape(v), op.const(0))), v, right(op, v, dim, **kw)
        ),
        DYNAMIC,
    ),
    "one row": Subtle(
        f(lambda v: torch.softmax(v, 0)),
        x(9, 3),
        aten.softmax.int,
        lambda op, right, v, dim, *a: op.Where(
            op.Equal(op.const(1), op.Gather(op.Shape(v), op.const(0))), v, right(op, v, dim, *a)
        ),
        DYNAMIC,
    ),
    "odd sizes": Subtle(
        f(lambda v: torch.flip(v, (0,))),
        x(8, 4),
        aten.flip.default,
        lambda op, right, v, dims: op.Where(
            op.Equal(op.const(1), op.Mod(op.Gather(op.Shape(v), op.const(0)), op.const(2))), v, right(op, v, dims)
        ),
        DYNAMIC,
    ),
}

NEAR: Mapping[str, Subtle] = {
    "epsilon of layer norm": Subtle(lambda: nn.LayerNorm(64), x(4, 64), aten.layer_norm.default, argument(4, 1e-3)),
    "epsilon of rms norm": Subtle(
        lambda: nn.RMSNorm(64, eps=1e-6), x(4, 64, scale=0.01), aten.rms_norm.default, argument(3, 1e-5)
    ),
    "gelu by tanh": Subtle(
        deep(torch.float32, F.gelu),
        x(4, 64),
        aten.gelu.default,
        lambda op, right, v, **_: right(op, v, approximate="tanh"),
    ),
    "softmax in bfloat16": Subtle(
        f(lambda v: torch.softmax(v, -1)),
        x(4, 64),
        aten.softmax.int,
        lambda op, right, v, *a: op.cast(op.cast(right(op, v, *a), D.BFLOAT16), D.FLOAT),
    ),
    "uncorrected variance": Subtle(
        f(lambda v: torch.std(v, -1)),
        x(4, 64),
        aten.std.correction,
        lambda op, right, v, *a, **k: right(op, v, *a, **(k | {"correction": 0})),
    ),
    "log of 1 + x": Subtle(
        f(torch.log1p), lambda: (torch.rand(64),), aten.log1p.default, instead(lambda op, v: op.Log(op.Add(v, 1.0)))
    ),
    "exp less 1": Subtle(f(torch.expm1), x(64), aten.expm1.default, instead(lambda op, v: op.Sub(op.Exp(v), 1.0))),
    "softmax without maximum": Subtle(
        f(lambda v: torch.softmax(v, -1)),
        x(4, 8),
        aten.softmax.int,
        instead(lambda op, v, *_: op.Div(op.Exp(v), op.ReduceSum(op.Exp(v), op.const([-1])))),
    ),
    "squares overflow": Subtle(
        f(lambda v: torch.linalg.vector_norm(v.half(), dim=-1)),
        x(4, 8),
        aten.linalg_vector_norm.default,
        instead(
            lambda op, v, *_: op.Sqrt(
                op.ReduceSum(op.Min(op.Mul(v, v), op.const(6e4, like=v)), op.const([-1]), keepdims=0)
            )
        ),
    ),
}

AT_VALUES: Mapping[str, Subtle] = {
    "NaN lost by maximum": Subtle(
        f(torch.maximum),
        lambda: (torch.randn(8), torch.randn(8)),
        aten.maximum.default,
        instead(lambda op, a, b: op.Where(op.Greater(a, b), a, b)),
    ),
    "NaN lost by relu": Subtle(
        f(torch.relu),
        x(8),
        aten.relu.default,
        instead(lambda op, v: op.Where(op.Greater(v, 0.0), v, op.const(0.0, like=v))),
    ),
    "NaN lost by clamp": Subtle(
        f(lambda v: v.clamp(-1, 1)),
        x(8),
        aten.clamp.default,
        instead(
            lambda op, v, low, high: op.Where(
                op.Greater(v, 1.0), op.const(1.0, like=v), op.Where(op.Greater(v, -1.0), v, op.const(-1.0, like=v))
            )
        ),
    ),
    "last of equals": Subtle(
        f(lambda v: torch.argmax(v, -1)),
        x(4, 8),
        aten.argmax.default,
        instead(lambda op, v, *_: op.ArgMax(v, axis=-1, keepdims=0, select_last_index=1)),
    ),
    "halves rounded up": Subtle(
        f(torch.round), x(64), aten.round.default, instead(lambda op, v: op.Floor(op.Add(v, 0.5)))
    ),
    "greater or equal": Subtle(
        f(lambda v: (v > 0) * 1.0),
        x(64),
        aten.gt.Scalar,
        instead(lambda op, v, n: op.GreaterOrEqual(v, op.const(n, like=v))),
    ),
    "sign of zero": Subtle(
        f(torch.sign),
        x(64),
        aten.sign.default,
        instead(lambda op, v: op.Where(op.Less(v, 0.0), op.const(-1.0, like=v), op.const(1.0, like=v))),
    ),
    "angle of -0.0": Subtle(
        f(lambda v: torch.where(torch.signbit(v), -1.0, 1.0)),
        x(64),
        aten.signbit.default,
        instead(lambda op, v: op.Less(v, 0.0)),
    ),
    "0 divided by 0": Subtle(
        f(lambda v: v / v.abs().sum(-1, keepdim=True)),
        x(4, 8),
        aten.div.Tensor,
        instead(lambda op, a, b: op.Div(a, op.Max(b, op.const(1e-12, like=b)))),
    ),
    "negative index": Subtle(
        f(lambda table, i: table[i]),
        lambda: (torch.randn(8, 3), torch.randint(0, 8, (5,))),
        aten.index.Tensor,
        instead(lambda op, v, i: op.Gather(v, op.Max(i[0], op.const(0)), axis=0)),
    ),
    "floor of negative division": Subtle(
        f(lambda v: torch.div(v, 3, rounding_mode="floor")),
        lambda: (torch.randint(0, 99, (16,)),),
        aten.div.Tensor_mode,
        instead(lambda op, v, n: op.Div(v, op.const(n, like=v))),
    ),
    "sign of remainder": Subtle(
        f(lambda v: torch.remainder(v, 5)),
        lambda: (torch.randint(0, 99, (16,)),),
        aten.remainder.Scalar,
        instead(lambda op, v, n: op.Mod(v, op.const(n, like=v), fmod=1)),
    ),
    "large integers by float": Subtle(
        f(lambda v: v * 3),
        lambda: (torch.randint(0, 99, (16,)),),
        aten.mul.Tensor,
        instead(lambda op, v, n: op.cast(op.Mul(op.cast(v, D.FLOAT), float(n)), D.INT64)),
    ),
    "least integer": Subtle(
        f(torch.abs),
        lambda: (torch.randint(-9, 99, (16,), dtype=torch.int32),),
        aten.abs.default,
        instead(lambda op, v: op.Max(v, op.Neg(op.Max(v, op.const(-(2**31) + 1, like=v))))),
    ),
    "infinity less infinity": Subtle(
        f(lambda v: torch.logsumexp(v, -1)),
        x(4, 8),
        aten.logsumexp.default,
        lambda op, right, v, *a: op.Min(right(op, v, *a), op.const(3e38, like=v)),
    ),
    "infinity that stays": Subtle(
        f(torch.nan_to_num),
        x(30),
        aten.nan_to_num.default,
        instead(lambda op, v, *_: op.Where(op.IsNaN(v), op.const(0.0, like=v), v)),
    ),
    "unstable order": Subtle(
        f(lambda v: torch.sort(v, dim=-1, stable=True)[1]),
        x(4, 8),
        aten.sort.stable,
        instead(lambda op, v, **_: backwards(op, v)),
    ),
    "column of zeros": Subtle(
        f(lambda v: F.normalize(v, dim=0)),
        x(8, 4),
        aten.clamp_min.default,
        lambda op, right, v, n: v,
    ),
    "constant column": Subtle(
        f(lambda v: (v - v.mean(0)) / torch.sqrt(v.var(0) + 1e-5)),
        x(16, 4),
        aten.add.Tensor,
        lambda op, right, v, n, **k: v,
    ),
}

SUBTLE: Mapping[str, Subtle] = {**ONE_SIGN, **BY_SIZE, **NEAR, **AT_VALUES}
