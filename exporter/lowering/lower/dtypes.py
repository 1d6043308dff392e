"""The one table between PyTorch's dtypes and ONNX's."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch

DTYPES: Mapping[torch.dtype, ir.DataType] = {
    torch.bool: ir.DataType.BOOL,
    torch.uint8: ir.DataType.UINT8,
    torch.uint16: ir.DataType.UINT16,
    torch.uint32: ir.DataType.UINT32,
    torch.uint64: ir.DataType.UINT64,
    torch.int8: ir.DataType.INT8,
    torch.int16: ir.DataType.INT16,
    torch.int32: ir.DataType.INT32,
    torch.int64: ir.DataType.INT64,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.complex64: ir.DataType.COMPLEX64,
    torch.complex128: ir.DataType.COMPLEX128,
    torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
    torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
    torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
    torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
    torch.float8_e8m0fnu: ir.DataType.FLOAT8E8M0,
}
"""Every dtype of PyTorch that ONNX has; what is missing here is finding UnsupportedType."""

FLOATS = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})
HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
UNSIGNED = frozenset({ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64})
INTEGERS = UNSIGNED | {ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64}
COMPLEX = frozenset({ir.DataType.COMPLEX64, ir.DataType.COMPLEX128})


class UnsupportedDtype(Exception):
    """A dtype that ONNX does not have."""


def onnx_dtype(dtype: torch.dtype) -> ir.DataType:
    """The ONNX element type of a PyTorch dtype. Raises `UnsupportedDtype` where there is none."""
    try:
        return DTYPES[dtype]
    except KeyError:
        raise UnsupportedDtype(f"{dtype} has no ONNX type") from None


def is_float(dtype: ir.DataType | None) -> bool:
    return dtype in FLOATS


def is_integer(dtype: ir.DataType | None) -> bool:
    """Return True if a dtype is one of ONNX's integer types; BOOL is not."""
    return dtype in INTEGERS


def int_range(dtype: ir.DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer type."""
    bits = int(dtype.bitwidth)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.is_signed() else (0, 2**bits - 1)


def float_range(dtype: ir.DataType) -> tuple[float, float]:
    """Lowest and largest finite value of a float type."""
    import ml_dtypes

    largest = float(ml_dtypes.finfo(dtype.numpy()).max)
    return -largest, largest


def lowest(dtype: ir.DataType) -> float | int:
    """The smallest value that a dtype can hold: what a maximum begins with."""
    if dtype == ir.DataType.BOOL:
        return 0
    return -float("inf") if is_float(dtype) else int_range(dtype)[0]


def highest(dtype: ir.DataType) -> float | int:
    """The largest value that a dtype can hold: what a minimum begins with."""
    if dtype == ir.DataType.BOOL:
        return 1
    return float("inf") if is_float(dtype) else int_range(dtype)[1]


NUMBERS: Mapping[type, ir.DataType] = {
    torch.SymInt: ir.DataType.INT64,
    torch.SymFloat: ir.DataType.DOUBLE,
    torch.SymBool: ir.DataType.BOOL,
}
"""Symbolic numbers as ONNX scalars."""
