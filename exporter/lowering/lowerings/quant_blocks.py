"""Quantization by blocks of any shape, as torchao has it: by tensor, channel, group or token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir
import sympy

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.dtypes import int_range, is_integer
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.quant import Grid, dequantize, is_known, quantize

D = ir.DataType

Size = int | sympy.Expr


@lowering("torchao.quantize_affine.default")
def quantize_affine(
    op: Op,
    x: Value,
    block_size: Sequence[Size],
    scale: Value,
    zero_point: Value | None,
    output_dtype: D,
    quant_min: int | None = None,
    quant_max: int | None = None,
) -> Value:
    """torchao::quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor"""  # noqa: E501
    low, high = _range(output_dtype, quant_min, quant_max)
    grid = Grid(scale, zero_point, low, high, output_dtype, by_operator=is_known(scale))
    return _by_blocks(op, x, block_size, grid, quantize)


@lowering("torchao.dequantize_affine.default")
def dequantize_affine(
    op: Op,
    x: Value,
    block_size: Sequence[Size],
    scale: Value,
    zero_point: Value | None,
    input_dtype: D,
    quant_min: int | None = None,
    quant_max: int | None = None,
    output_dtype: D = D.FLOAT,
) -> Value:
    """torchao::dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor"""  # noqa: E501
    low, high = _range(input_dtype, quant_min, quant_max)
    grid = Grid(scale, zero_point, low, high, input_dtype)
    return _by_blocks(op, x, block_size, grid, lambda op, x, grid: dequantize(op, x, grid, op.out.dtype))


def _range(dtype: D, low: float | None, high: float | None) -> tuple[int, int]:
    if not is_integer(dtype):
        raise Unsupported(f"ONNX has no affine quantization to {dtype.name}")
    least, most = int_range(dtype)
    return least if low is None else int(low), most if high is None else int(high)


def _by_blocks(op: Op, x: Value, blocks: Sequence[Size], grid: Grid, way: Callable[[Op, Value, Grid], Value]) -> Value:
    """`way` with one scale and zero point for each block; both come in any shape that has a number for each."""
    sizes = op.sizes(x)
    counts = [size if block == 1 else size // block for size, block in zip(sizes, blocks, strict=True)]
    cut = [axis for axis, count in enumerate(counts) if count != 1]
    single = all(blocks[axis] == 1 for axis in cut)
    if not cut:
        return way(op, x, _parameters(op, grid, []))
    if single and len(cut) == 1:
        return way(op, x, _parameters(op, grid, [counts[cut[0]]], axis=cut[0]))
    if single:
        return way(op, x, _parameters(op, grid, counts, by_operator=False))
    last, block = len(sizes) - 1, blocks[-1]
    if isinstance(block, int) and all(each == 1 for each in blocks[:-1]):
        return way(op, x, _parameters(op, grid, counts, axis=last, block=block))
    pairs = [each for pair in zip(counts, blocks, strict=True) for each in pair]
    ends = [each for count in counts for each in (count, 1)]
    split = op.typed(op.reshape(x, pairs), pairs)
    return op.reshape(way(op, split, _parameters(op, grid, ends, by_operator=False)), sizes)


def _parameters(op: Op, grid: Grid, shape: Sequence[Size], **form: Any) -> Grid:
    """The grid with its scale and zero point in the shape that its form asks for."""
    scale = op.reshape(op.cast(grid.scale, D.FLOAT), shape)
    zero = None if grid.zero is None else op.reshape(grid.zero, shape)
    return replace(grid, scale=scale, zero=zero, **form)
