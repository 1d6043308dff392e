"""Dynamic quantization: scales and zero points chosen from the values themselves."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering

D = ir.DataType

UNSIGNED_MIDDLE = 128
"""The zero point of a symmetric range of unsigned bytes."""
SMALLEST = 1e-5
"""The largest value by which a token is scaled at least."""
TOKEN_RANGE = (-128, 127)
EPSILON = torch.finfo(torch.float32).eps


def _bounds(op: Op, x: Value, by_token: bool) -> tuple[Value, Value]:
    """The least and the largest value, and 0 if it is beyond them: of all, or of each row, which keeps its axis."""
    axes = [op.const([op.rank(x) - 1], dtype=D.INT64)] if by_token else []
    low, high = (op.call(kind, x, *axes, keepdims=int(by_token)) for kind in ("ReduceMin", "ReduceMax"))
    return op.Min(low, op.const(0, like=x)), op.Max(high, op.const(0, like=x))


def _chosen(op: Op, scale: Value, zero: Value) -> tuple[Value, Value]:
    """Both in the dtypes and sizes of the results."""
    shape = op.shape(op.outs[0].sizes)
    return op.Reshape(op.cast(scale, D.DOUBLE), shape), op.Reshape(op.cast(zero, D.INT64), shape)


@lowering("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(op: Op, x: Value, low: int, high: int, eps: float, dtype: D) -> tuple[Value, Value]:
    """quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""  # noqa: E501
    least, most = _bounds(op, x, by_token=False)
    scale = op.Max(op.cast(op.Div(op.Sub(most, least), float(high - low)), D.FLOAT), eps)
    zero = op.Sub(float(low), op.Round(op.Div(op.cast(least, D.FLOAT), scale)))
    return _chosen(op, scale, op.Clip(zero, float(low), float(high)))


@lowering("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(op: Op, x: Value, low: int, high: int, eps: float, dtype: D) -> tuple[Value, Value]:
    """quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)"""  # noqa: E501
    least, most = _bounds(op, x, by_token=False)
    size = op.Div(op.Max(op.Neg(least), most), (high - low) / 2)
    return _chosen(op, op.Max(op.cast(size, D.FLOAT), eps), op.const(UNSIGNED_MIDDLE if dtype == D.UINT8 else 0))


@lowering("quantized_decomposed.choose_qparams_per_token.default")
def choose_qparams_per_token(op: Op, x: Value, dtype: D) -> tuple[Value, Value]:
    """quantized_decomposed::choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)

    A symmetric range for each row. Of halves as FLOAT.
    """
    _, most = _bounds(op, op.typed(op.Abs(op.cast(x, D.FLOAT)), op.sizes(x)), by_token=True)
    scale = op.Div(op.Max(most, SMALLEST), float(TOKEN_RANGE[1]))
    return _chosen(op, scale, op.Expand(0, op.shape(op.outs[1].sizes)))


@lowering(
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default",
)
def choose_qparams_per_token_asymmetric(op: Op, x: Value, dtype: D) -> tuple[Value, Value]:
    """quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)

    The zero point is that of the end of the range that it represents with the smaller error.
    """
    low, high = (float(end) for end in TOKEN_RANGE)
    least, most = _bounds(op, x, by_token=True)
    scale = op.Max(op.Div(op.Sub(most, least), high - low), EPSILON)
    from_least, from_most = op.Div(least, scale), op.Div(most, scale)
    errors = op.Add(op.Add(from_least, low), op.Add(from_most, high))
    zero = op.Where(op.Greater(errors, 0), op.Sub(low, from_least), op.Sub(high, from_most))
    return _chosen(op, scale, op.Round(op.Clip(zero, low, high)))
