"""Further subtle faults: what equal indices, full masks, ids of padding, bytes, offsets and few elements hide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.cases.subtle import DYNAMIC, Calls, Subtle, argument, aten, f, instead, scaled, x

D = ir.DataType
IDS = torch.arange(1, 15).reshape(2, 7)
FULL = torch.ones(2, 7, dtype=torch.bool)
PLACES = torch.tensor([0, 3, 5, 7, 9, 10])


def embedded(function: Callable[..., Any]) -> Callable[[], nn.Module]:
    """A function of embedded ids, and of a further input."""
    return lambda: Calls(lambda ids, other, table: function(table(ids), other), nn.Embedding(50, 16))


def with_ids(other: Tensor) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (IDS, other)


def attended(h: Tensor, mask: Tensor) -> Tensor:
    q = h.unsqueeze(1)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask[:, None, None, :])


def saturated(op: Any, a: Any, b: Any) -> Any:
    wide = op.Add(op.cast(a, D.INT32), op.cast(b, D.INT32))
    return op.cast(op.Clip(wide, op.cast(op.const(-128), D.INT32), op.cast(op.const(127), D.INT32)), D.INT8)


def by_squares(op: Any, v: Any, _shape: Any, weight: Any, bias: Any, eps: float, *_: Any) -> Any:
    mean, square = op.ReduceMean(v, op.const([-1])), op.ReduceMean(op.Mul(v, v), op.const([-1]))
    spread = op.Sqrt(op.Add(op.Sub(square, op.Mul(mean, mean)), eps))
    return op.Add(op.Mul(op.Div(op.Sub(v, mean), spread), weight), bias)


def rolled_once(op: Any, v: Any, *_: Any) -> Any:
    """Right for shifts that are smaller than the size."""
    axis, start = op.const([0]), op.const([0])
    last = op.Slice(v, op.const([-5]), op.const([2**40]), axis)
    return op.Concat(last, op.Slice(v, start, op.const([-5]), axis), axis=0)


def undefined_alone(op: Any, right: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
    found = right(op, v, *args, **kwargs)
    return op.Where(op.Equal(op.const(1), op.Gather(op.Shape(v), op.const(0))), op.Mul(found, float("nan")), found)


FURTHER: Mapping[str, Subtle] = {
    "half away from zero": Subtle(
        f(lambda v: torch.round(v / 0.5) * 0.5),
        x(6, 32),
        aten.round.default,
        instead(lambda op, v: op.Mul(op.Sign(v), op.Floor(op.Add(op.Abs(v), 0.5)))),
    ),
    "half up of a multiple": Subtle(
        f(lambda v: torch.round(v * 20) / 20),
        x(40, 50),
        aten.round.default,
        instead(lambda op, v: op.Floor(op.Add(v, 0.5))),
    ),
    "id of padding": Subtle(
        embedded(lambda h, ids: h * (ids != 0)[..., None]),
        with_ids(IDS),
        aten.ne.Scalar,
        instead(lambda op, ids, _: op.Greater(ids, op.const(-(2**62)))),
    ),
    "ignored target": Subtle(
        f(lambda v, t: F.nll_loss(v, t, reduction="none")),
        lambda: (torch.randn(6, 32), torch.arange(6)),
        aten.nll_loss_nd.default,
        lambda op, right, v, t, weight, reduction, *_: right(op, v, t, weight, reduction, -1),
    ),
    "truths that are all true": Subtle(
        embedded(lambda h, mask: torch.where(mask[..., None], h, -h)),
        with_ids(FULL),
        aten.where.self,
        instead(lambda op, mask, a, b: op.Identity(a)),
    ),
    "a full mask": Subtle(
        embedded(attended),
        with_ids(FULL),
        aten.scaled_dot_product_attention.default,
        lambda op, right, q, k, v, *_args, **_kwargs: right(op, q, k, v),
    ),
    "a place that is written to twice": Subtle(
        f(lambda v, places: torch.zeros(12, 8).index_put((places,), v, accumulate=True)),
        lambda: (torch.randn(6, 8), PLACES),
        aten.index_put.default,
        lambda op, right, v, places, values, *_: right(op, v, places, values, False),
    ),
    "index beside ids": Subtle(
        lambda: Calls(lambda ids, places, table: table(ids).sum((0, 1)) + table.weight[places], nn.Embedding(50, 16)),
        with_ids(torch.tensor([1, 4, 6, 2])),
        aten.index.Tensor,
        instead(lambda op, v, places: op.Gather(v, op.Max(places[0], op.const(0)), axis=0)),
    ),
    "bytes that overflow": Subtle(
        f(lambda v: v + v),
        lambda: (torch.randint(-30, 30, (6, 8), dtype=torch.int8),),
        aten.add.Tensor,
        instead(saturated),
    ),
    "powers by the logarithm": Subtle(
        f(lambda v: v**3),
        lambda: (torch.rand(6, 8) + 0.1,),
        aten.pow.Tensor_Scalar,
        instead(lambda op, v, n: op.Exp(op.Mul(op.Log(v), float(n)))),
    ),
    "variance by squares": Subtle(lambda: nn.LayerNorm(64), x(4, 64), aten.layer_norm.default, instead(by_squares)),
    "a shift beyond the size": Subtle(
        f(lambda v: torch.roll(v, 5, 0)), x(9, 4), aten.roll.default, instead(rolled_once), DYNAMIC
    ),
    "the spread of one row": Subtle(
        f(lambda v: v.std(0, correction=0)), x(9, 4), aten.std.correction, undefined_alone, DYNAMIC
    ),
    "beside large values": Subtle(
        f(lambda v: torch.cat([v * 1e8, torch.sin(v)], -1)), x(64, 64), aten.sin.default, scaled(1.05)
    ),
    "by little beside large values": Subtle(
        f(lambda v: torch.cat([v * 1e5, torch.sin(v) * 1e-2], -1)), x(64, 64), aten.sin.default, scaled(1.003)
    ),
    "beside large values in a row": Subtle(
        f(lambda v: torch.cat([v * 1e30, torch.sin(v)])), x(2000), aten.sin.default, scaled(1.05)
    ),
    "threshold of the window": Subtle(
        f(lambda v: F.softplus(v, 2.0, 5.0)), x(6, 32), aten.softplus.default, argument(2, 3.0)
    ),
    "sigmoid x 1.002 beside 0": Subtle(
        f(lambda v: torch.sigmoid(v - 11)), x(64, 64), aten.sigmoid.default, scaled(1.002)
    ),
    "elu x 1.0001": Subtle(f(F.elu), x(64, 64), aten.elu.default, scaled(1.0001)),
    "1e-4 more before elu": Subtle(
        lambda: Calls(lambda v, scale: F.elu(scale(v) * 0.1), nn.Linear(64, 64)),
        x(64, 64),
        aten.linear.default,
        lambda op, right, *args: op.Add(right(op, *args), op.const(1e-4, like=args[0])),
    ),
    "sums of integers by float": Subtle(
        f(lambda v: v.sum(0)),
        lambda: (torch.randint(0, 200, (30, 4)),),
        aten.sum.dim_IntList,
        lambda op, right, v, *args, **kw: op.cast(right(op, op.cast(v, D.FLOAT), *args, **kw), D.INT64),
    ),
    "totals that leave their type": Subtle(
        f(lambda v: torch.cumsum(v, 0)),
        lambda: (torch.randint(0, 99, (9,), dtype=torch.int32),),
        aten.cumsum.default,
        instead(lambda op, v, *_: op.cast(op.CumSum(v, op.const(0)), D.INT64)),
    ),
    "sign of -0.0 beside numbers": Subtle(
        f(torch.copysign),
        lambda: (torch.rand(9) + 1, torch.rand(9) + 1),
        aten.copysign.Tensor,
        instead(lambda op, a, b: op.Mul(op.Abs(a), op.Where(op.Less(b, 0.0), op.const(-1.0), op.const(1.0)))),
    ),
}
