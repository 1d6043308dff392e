"""Planted faults in the models of `fault_models`: what exporters get wrong about single layers."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.registry import registered
from fxport.exporter.lowering.lowerings import LOWERINGS
from tests.cases.faults import (
    Fault,
    InFxPass,
    InLowering,
    InOnnxPass,
    Wrong,
    argument,
    keyword,
    set_argument,
    set_int,
    set_string,
)

aten = torch.ops.aten
D = ir.DataType


def onnx(build: Any) -> Wrong:
    """Another operator of ONNX in the place of the right lowering."""
    return lambda op, right, *args, **kwargs: build(op, *args)


def one_weight_off(op: Any, right: Any, x: Any, weight: Any, bias: Any) -> Any:
    bump = op.const([1e-3, 0, 0, 0, 0, 0], like=x)
    return right(op, x, op.typed(op.Add(weight, bump), weight.meta[SIZES]), bias)


def without_row_0(op: Any, right: Any, table: Any, ids: Any, *rest: Any) -> Any:
    """The row of padding of another table."""
    rows = right(op, table, ids, *rest)
    return op.Where(op.Unsqueeze(op.Equal(ids, op.const(0, like=ids)), op.const([-1])), op.const(0, like=rows), rows)


def saturating(op: Any, x: Any, factor: int) -> Any:
    """A product of int32 that stops at the largest number, where PyTorch's wraps."""
    wide = op.Mul(op.cast(x, D.DOUBLE), op.const(float(factor), dtype=D.DOUBLE))
    return op.cast(op.Clip(wide, *(op.const(bound, dtype=D.DOUBLE) for bound in (-(2.0**31), 2.0**31 - 1))), D.INT32)


def floored_rest(op: Any, x: Any, divisor: float) -> Any:
    """The remainder with the divisor's sign, where PyTorch was asked for the dividend's."""
    by = op.const(divisor, like=x)
    return op.Sub(x, op.Mul(op.Floor(op.Div(x, by)), by))


def softmax_in_bfloat16(op: Any, x: Any, dim: int, *_: Any) -> Any:
    return op.cast(op.Softmax(op.cast(x, D.BFLOAT16), axis=dim), D.FLOAT16)


def at_centers(op: Any, right: Any, *args: Any) -> Any:
    """The nearest pixel to the center of a new one, where PyTorch takes that to its corner."""
    return registered(LOWERINGS)[aten._upsample_nearest_exact2d.vec](op, *args)


FAULTS: tuple[Fault, ...] = (
    Fault("padding mode", "decoder", InLowering(aten.pad.default, 0, argument(2, lambda mode: "replicate"))),
    Fault("number of groups", "decoder", InLowering(aten.group_norm.default, 0, argument(1, lambda groups: 4))),
    Fault("padding counted", "decoder", InLowering(aten.avg_pool2d.default, 0, keyword(count_include_pad=False))),
    Fault("aligned corners", "decoder", InLowering(aten.upsample_bilinear2d.vec, 0, argument(2, lambda flag: True))),
    Fault("nearest place", "decoder", InLowering(aten.upsample_nearest2d.vec, 0, at_centers)),
    Fault("direction of roll", "decoder", InLowering(aten.roll.default, 0, argument(1, lambda by: [-n for n in by]))),
    Fault("no upper bound", "decoder", InLowering(aten.clamp.default, 0, argument(2, lambda bound: None))),
    Fault("wrong axis", "decoder", InFxPass(aten.flip.default, 0, set_argument(1, [3]))),
    Fault("wrong axis", "decoder", InLowering(aten.softmax.int, 0, argument(1, lambda dim: 2))),
    Fault("order of blocks", "decoder", InOnnxPass("DepthToSpace", 0, set_string("mode", "DCR"))),
    Fault("exclusive sum", "reader", InOnnxPass("CumSum", 0, set_int("exclusive", 1))),
    Fault("mask off by one", "reader", InLowering(aten.triu.default, 0, lambda op, right, x, *_: right(op, x, 2))),
    Fault("weak mask", "reader", InLowering(aten.masked_fill.Scalar, 0, argument(2, lambda low: -2.0))),
    Fault("scale of scores", "reader", InLowering(aten.div.Tensor, 0, argument(1, lambda root: 2.5))),
    Fault("row of padding", "reader", InLowering(aten.embedding.default, 1, without_row_0)),
    Fault(
        "no transposition",
        "reader",
        InLowering(aten.transpose.int, 4, onnx(lambda op, x, *_: op.Reshape(x, op.const([2, 9, 4, 4])))),
    ),
    Fault("wrong axis", "reader", InLowering(aten.gather.default, 0, argument(1, lambda dim: 2))),
    Fault(
        "last of equals",
        "reader",
        InLowering(
            aten.argmax.default, 0, onnx(lambda op, x, *_: op.ArgMax(x, axis=-1, keepdims=0, select_last_index=1))
        ),
    ),
    Fault("near function", "reader", InLowering(aten.sigmoid.default, 0, onnx(lambda op, x: op.HardSigmoid(x)))),
    Fault("rounding", "reader", InLowering(aten.round.default, 0, onnx(lambda op, x: op.Ceil(x)))),
    Fault(
        "sign of remainder",
        "numbers",
        InLowering(aten.remainder.Scalar, 0, onnx(lambda op, x, n: op.Mod(x, op.const(n, like=x), fmod=1))),
    ),
    Fault("sign of remainder", "numbers", InLowering(aten.fmod.Scalar, 0, onnx(floored_rest))),
    Fault("floor for truncation", "numbers", InLowering(aten.div.Tensor_mode, 0, keyword(rounding_mode="floor"))),
    Fault("overflow", "numbers", InLowering(aten.mul.Tensor, 0, onnx(saturating))),
    Fault("one weight of many", "numbers", InLowering(aten.linear.default, 7, one_weight_off)),
    Fault(
        "one of two branches",
        "numbers",
        InLowering(aten.where.self, 0, onnx(lambda op, test, one, other: op.Identity(other))),
    ),
    Fault("wrong dtype", "numbers", InLowering(aten.softmax.int, 0, onnx(softmax_in_bfloat16))),
    Fault(
        "smallest for largest",
        "numbers",
        InLowering(aten.topk.default, 0, lambda op, right, x, k, *_: right(op, x, k, -1, False)),
    ),
    Fault(
        "rounding",
        "numbers",
        InLowering(aten.floor.default, 0, onnx(lambda op, x: op.cast(op.cast(x, D.INT64), D.FLOAT))),
    ),
    Fault(
        "batch statistics",
        "cnn",
        InLowering(aten.batch_norm.default, 0, onnx(lambda op, x, w, b, *_: op.InstanceNormalization(x, w, b))),
    ),
)
