"""Quantization: every form of it becomes QuantizeLinear and DequantizeLinear, and packed weights stay packed.

Values on the border between two numbers may fall to the other one: PyTorch multiplies by the reciprocal of the scale,
ONNX divides by the scale. A range narrower than the type's, such as -127 to 127, is a Clip of the quantized values.
Where the operators lack the type, the zero point is a float, or scales are by token, the same is written as arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import int_range, is_integer
from fxport.exporter.lowering.lower.registry import lowering

aten = torch.ops.aten

D = ir.DataType

SINCE: Mapping[D, int] = {D.INT8: 10, D.UINT8: 10, D.INT16: 21, D.UINT16: 21, D.INT4: 21, D.UINT4: 21}
"""From which opset on QuantizeLinear makes a type."""

RESTORED: Mapping[D, int] = {**SINCE, D.INT32: 10}
"""From which opset on DequantizeLinear takes a type."""

RANGES: tuple[D, ...] = (D.INT4, D.UINT4, D.INT8, D.UINT8, D.INT16, D.UINT16)
"""Dtypes to which fake quantization may quantize, the smallest first."""


DECLARED = "fxport.declared"
"""Value metadata, in memory only: the range that a model says the quantized numbers lie in, on what is made of them."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The numbers that values are rounded to: `(q - zero) * scale` for q from `low` to `high` of type `dtype`.

    `scale` and `zero` are of shape [], or [n] along `axis`, or have a number for each `block` elements along it; with
    `axis` None they may have any shape that broadcasts, if the arithmetic form is asked for.
    """

    scale: Value
    zero: Value | None
    low: int | Value
    high: int | Value
    dtype: D
    axis: int | None = None
    block: int | None = None
    by_operator: bool = True

    def fits(self, op: Op, table: Mapping[D, int]) -> bool:
        """Return True if the operators support this grid. A zero point is an integer, and INT32 has none."""
        since = max(table.get(self.dtype, op.opset + 1), 21 if self.block else 10)
        whole = self.zero is None or (is_integer(self.zero.dtype) and self.dtype != D.INT32)
        return self.by_operator and whole and op.opset >= since

    @property
    def attributes(self) -> dict[str, int | None]:
        return {"axis": self.axis} if self.block is None else {"axis": self.axis, "block_size": self.block}

    @property
    def is_full(self) -> bool:
        return is_integer(self.dtype) and (self.low, self.high) == int_range(self.dtype)


def quantize(op: Op, x: Value, grid: Grid, *, round_last: bool = False) -> Value:
    """The number of the grid's point nearest to each value; `round_last` rounds after the zero point is added."""
    if not grid.fits(op, SINCE):
        return _by_arithmetic(op, x, grid, round_last)
    zero = op.cast(grid.zero, grid.dtype) if grid.zero is not None else op.const(0, dtype=grid.dtype)
    q = op.QuantizeLinear(op.cast(x, D.FLOAT), grid.scale, zero, **grid.attributes)
    return q if grid.is_full else _clip(op, q, grid)


def is_known(scale: Value | float) -> bool:
    """Return True if a scale is not computed by the model, where the largest value often lies on the border of two
    numbers.

    QuantizeLinear would choose the other one there.
    """
    return not isinstance(scale, Value) or scale.const_value is not None


def _clip(op: Op, q: Value, grid: Grid) -> Value:
    """Clip has no 4-bit types; their narrower ranges go by the next larger type."""
    if q.dtype in (D.INT4, D.UINT4):
        return op.cast(op.Clip(op.cast(q, D.INT8), grid.low, grid.high), grid.dtype)
    return op.Clip(q, *(op.cast(end, grid.dtype) if isinstance(end, Value) else end for end in (grid.low, grid.high)))


def _by_arithmetic(op: Op, x: Value, grid: Grid, round_last: bool = False) -> Value:
    inverse = op.Reciprocal(_spread(op, x, grid.scale, grid))
    q = op.Mul(_split(op, op.cast(x, D.FLOAT), x, grid), inverse)
    zero = None if grid.zero is None else op.cast(_spread(op, x, grid.zero, grid), D.FLOAT)
    if round_last:
        q = op.Round(q if zero is None else op.Add(q, zero))
    else:
        q = op.Round(q) if zero is None else op.Add(op.Round(q), zero)
    low, high = (op.const(end, dtype=D.FLOAT) for end in (grid.low, grid.high))
    return op.cast(_joined(op, op.Max(op.Min(q, high), low), x, grid), grid.dtype)


def dequantize(op: Op, q: Value, grid: Grid, dtype: D) -> Value:
    """The values that quantized numbers stand for."""
    if not grid.fits(op, RESTORED):
        y = op.cast(_split(op, q, q, grid), D.FLOAT)
        if grid.zero is not None:
            y = op.Sub(y, op.cast(_spread(op, q, grid.zero, grid), D.FLOAT))
        return op.cast(_joined(op, op.Mul(y, _spread(op, q, grid.scale, grid)), q, grid), dtype)
    zero = None if grid.zero is None else op.cast(grid.zero, grid.dtype)
    y = op.DequantizeLinear(q, grid.scale, zero, **grid.attributes)
    if isinstance(grid.low, int) and isinstance(grid.high, int):
        y.meta[DECLARED] = (grid.low, grid.high)
    return op.cast(y, dtype)


def _spread(op: Op, x: Value, parameter: Value, grid: Grid) -> Value:
    """A scale or zero point in a shape that broadcasts with `x`, or with `x` in blocks."""
    if grid.block is not None:
        return op.Unsqueeze(parameter, [-1])
    if grid.axis is None:
        return parameter
    return op.Reshape(parameter, [-1] + [1] * (op.rank(x) - grid.axis - 1))


def _split(op: Op, values: Value, x: Value, grid: Grid) -> Value:
    """Values in blocks along their last axis."""
    if grid.block is None:
        return values
    *lead, last = op.sizes(x)
    return op.reshape(values, [*lead, last // grid.block, grid.block])


def _joined(op: Op, values: Value, x: Value, grid: Grid) -> Value:
    return values if grid.block is None else op.reshape(values, op.sizes(x))


# What PyTorch's exported quantization holds -------------------------------------------------------------------------


def _single(op: Op, parameter: Value | float, dtype: D) -> Value:
    """A scale or zero point as a scalar of a type; tensors of one element come in any rank."""
    value = op.const(parameter, dtype=dtype)
    return value if not isinstance(parameter, Value) or op.rank(parameter) == 0 else op.Reshape(value, [])


def _zero(op: Op, zero: Value | int, dtype: D) -> Value | None:
    return None if not isinstance(zero, Value) and zero == 0 else _single(op, zero, dtype)


def _per_tensor(op: Op, scale: Value | float, zero: Value | int, low: Value | int, high: Value | int, dtype: D) -> Grid:
    kind = dtype if dtype in RESTORED else D.INT32
    low, high = (_single(op, end, D.INT64) if isinstance(end, Value) else end for end in (low, high))
    return Grid(_single(op, scale, D.FLOAT), _zero(op, zero, kind), low, high, dtype)


@lowering(
    "quantized_decomposed.quantize_per_tensor.default",
    "quantized_decomposed.quantize_per_tensor.tensor",
    "quantized_decomposed.quantize_per_tensor.tensor2",
)
def quantize_per_tensor(
    op: Op, x: Value, scale: Value | float, zero: Value | int, low: Value | int, high: Value | int, dtype: D
) -> Value:
    """quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""  # noqa: E501
    grid = _per_tensor(op, scale, zero, low, high, dtype)
    return quantize(op, x, replace(grid, by_operator=is_known(scale)))


@lowering(
    "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.dequantize_per_tensor.tensor",
    "quantized_decomposed.dequantize_per_tensor.tensor2",
)
def dequantize_per_tensor(
    op: Op,
    x: Value,
    scale: Value | float,
    zero: Value | int,
    low: Value | int,
    high: Value | int,
    dtype: D,
    *,
    out_dtype: D | None = None,
) -> Value:
    """quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    return dequantize(op, x, _per_tensor(op, scale, zero, low, high, dtype), op.out.dtype)


@lowering("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(
    op: Op, x: Value, scales: Value, zeros: Value, axis: int, low: int, high: int, dtype: D
) -> Value:
    """quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""  # noqa: E501
    return quantize(op, x, Grid(op.cast(scales, D.FLOAT), zeros, low, high, dtype, axis % op.rank(x)))


@lowering("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(
    op: Op,
    x: Value,
    scales: Value,
    zeros: Value | None,
    axis: int,
    low: int,
    high: int,
    dtype: D,
    *,
    out_dtype: D | None = None,
) -> Value:
    """quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"""  # noqa: E501
    grid = Grid(op.cast(scales, D.FLOAT), zeros, low, high, dtype, axis % op.rank(x))
    return dequantize(op, x, grid, op.out.dtype)


@lowering("quantized_decomposed.quantize_per_token.default")
def quantize_per_token(op: Op, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: D) -> Value:
    """quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor"""  # noqa: E501
    grid = Grid(op.cast(scales, D.FLOAT), zeros, low, high, dtype, by_operator=False)
    return quantize(op, x, grid, round_last=True)


@lowering("quantized_decomposed.dequantize_per_token.default")
def dequantize_per_token(
    op: Op, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: D, out_dtype: D
) -> Value:
    """quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"""  # noqa: E501
    return dequantize(op, x, Grid(op.cast(scales, D.FLOAT), zeros, low, high, dtype, by_operator=False), op.out.dtype)


@lowering("quantized_decomposed.quantize_per_channel_group.default")
def quantize_per_channel_group(
    op: Op, x: Value, scales: Value, zeros: Value, low: int, high: int, dtype: D, group_size: int
) -> Value:
    """quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size) -> Tensor"""  # noqa: E501
    grid = Grid(op.cast(scales, D.FLOAT), zeros, low, high, dtype, op.rank(x) - 1, group_size)
    return quantize(op, x, grid, round_last=True)


@lowering("quantized_decomposed.dequantize_per_channel_group.default")
def dequantize_per_channel_group(
    op: Op,
    x: Value,
    scales: Value,
    zeros: Value | None,
    low: int,
    high: int,
    dtype: D,
    group_size: int,
    out_dtype: D,
) -> Value:
    """quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"""  # noqa: E501
    grid = Grid(op.cast(scales, D.FLOAT), zeros, low, high, dtype, op.rank(x) - 1, group_size)
    return dequantize(op, x, grid, op.out.dtype)


# Fake quantization --------------------------------------------------------------------------------------------------


def _smallest(op: Op, low: int, high: int) -> D:
    """The smallest type whose range holds [low, high]; INT32, which goes by arithmetic, where none does."""
    for dtype in RANGES:
        least, most = int_range(dtype)
        if least <= low and high <= most and op.opset >= SINCE[dtype]:
            return dtype
    return D.INT32


def _there_and_back(op: Op, x: Value, grid: Grid) -> Value:
    """Round to the grid. NaN becomes its lowest number, as ONNX Runtime's QuantizeLinear has it too."""
    numbers = x if grid.fits(op, SINCE) else op.Where(op.IsNaN(x), op.const(-math.inf, like=x), x)
    q = quantize(op, op.typed(numbers, op.sizes(x)), grid, round_last=True)
    return dequantize(op, op.typed(q, op.sizes(x)), grid, op.out.dtype)


def _within(op: Op, x: Value, grid: Grid) -> Value:
    """Compute as BOOL where values round to a number inside of the grid, not to its end."""
    q = op.Div(op.cast(x, D.FLOAT), _spread(op, x, grid.scale, grid))
    if grid.zero is not None:
        q = op.Add(q, op.cast(_spread(op, x, grid.zero, grid), D.FLOAT))
    q = op.Round(q)
    low, high = (op.const(end, dtype=D.FLOAT) for end in (grid.low, grid.high))
    return op.And(op.GreaterOrEqual(q, low), op.LessOrEqual(q, high))


def _fake_grid(op: Op, scale: Value | float, zero: Value | int, low: int, high: int) -> Grid:
    dtype = _smallest(op, low, high)
    return Grid(_single(op, scale, D.FLOAT), _zero(op, zero, dtype), low, high, dtype)


@lowering(aten.fake_quantize_per_tensor_affine.default, aten.fake_quantize_per_tensor_affine.tensor_qparams)
def fake_quantize_per_tensor_affine(
    op: Op, x: Value, scale: Value | float, zero_point: Value | int, quant_min: int, quant_max: int
) -> Value:
    """fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor"""  # noqa: E501
    return _there_and_back(op, x, _fake_grid(op, scale, zero_point, quant_min, quant_max))


@lowering(aten.fake_quantize_per_tensor_affine_cachemask.default)
def fake_quantize_per_tensor_affine_cachemask(
    op: Op, x: Value, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""  # noqa: E501
    grid = _fake_grid(op, scale, zero_point, quant_min, quant_max)
    return _there_and_back(op, x, grid), _within(op, x, grid)


@lowering(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def fake_quantize_per_tensor_affine_tensors(
    op: Op, x: Value, scale: Value, zero_point: Value, fake_quant_enabled: Value, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""  # noqa: E501
    grid = _fake_grid(op, scale, zero_point, quant_min, quant_max)
    enabled = op.cast(_single(op, fake_quant_enabled, D.INT64), D.BOOL)
    y = op.Where(enabled, _there_and_back(op, x, grid), x)
    return y, op.Or(op.Not(enabled), _within(op, x, grid))


def _fake_channels(op: Op, x: Value, scale: Value, zero: Value, axis: int, low: int, high: int) -> Grid:
    return Grid(op.cast(scale, D.FLOAT), zero, low, high, _smallest(op, low, high), axis % op.rank(x))


@lowering(aten.fake_quantize_per_channel_affine.default)
def fake_quantize_per_channel_affine(
    op: Op, x: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> Value:
    """fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> Tensor"""  # noqa: E501
    return _there_and_back(op, x, _fake_channels(op, x, scale, zero_point, axis, quant_min, quant_max))


@lowering(aten.fake_quantize_per_channel_affine_cachemask.default)
def fake_quantize_per_channel_affine_cachemask(
    op: Op, x: Value, scale: Value, zero_point: Value, axis: int, quant_min: int, quant_max: int
) -> tuple[Value, Value]:
    """fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)"""  # noqa: E501
    grid = _fake_channels(op, x, scale, zero_point, axis, quant_min, quant_max)
    return _there_and_back(op, x, grid), _within(op, x, grid)
