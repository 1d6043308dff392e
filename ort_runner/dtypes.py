"""The element types that travel between PyTorch, files and ONNX Runtime, as one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import ml_dtypes
import numpy as np

FLOAT, INTEGER, BOOL = "float", "integer", "bool"


@dataclass(frozen=True, slots=True)
class Element:
    """One element type.

    `code` is its number in onnx.TensorProto.DataType, `ort_name` the name in ONNX Runtime's "tensor(...)".
    `bits` is what one element takes in an ONNX tensor; numpy and ml_dtypes keep types below 8 bits in a byte each.
    `native` says that ONNX Runtime's Python API exchanges it with numpy by itself.
    """

    name: str
    dtype: np.dtype
    code: int
    ort_name: str
    kind: str
    bits: int
    native: bool

    @property
    def raw(self) -> np.dtype:
        """The unsigned integer of the same width in numpy: what the bytes are when nobody knows the type."""
        return np.dtype(f"u{self.dtype.itemsize}")


def _row(dtype: type | np.dtype, code: int, ort_name: str, kind: str, bits: int = 0) -> Element:
    held = np.dtype(dtype)
    native = held.type.__module__ == "numpy"
    return Element(held.name, held, code, ort_name, kind, bits or 8 * held.itemsize, native)


# The codes: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto, enum TensorProto.DataType.
ELEMENTS: tuple[Element, ...] = (
    _row(np.float32, 1, "float", FLOAT),
    _row(np.float64, 11, "double", FLOAT),
    _row(np.float16, 10, "float16", FLOAT),
    _row(ml_dtypes.bfloat16, 16, "bfloat16", FLOAT),
    _row(ml_dtypes.float8_e4m3fn, 17, "float8e4m3fn", FLOAT),
    _row(ml_dtypes.float8_e4m3fnuz, 18, "float8e4m3fnuz", FLOAT),
    _row(ml_dtypes.float8_e5m2, 19, "float8e5m2", FLOAT),
    _row(ml_dtypes.float8_e5m2fnuz, 20, "float8e5m2fnuz", FLOAT),
    _row(ml_dtypes.float4_e2m1fn, 23, "float4e2m1", FLOAT, 4),
    _row(np.int64, 7, "int64", INTEGER),
    _row(np.int32, 6, "int32", INTEGER),
    _row(np.int16, 5, "int16", INTEGER),
    _row(np.int8, 3, "int8", INTEGER),
    _row(np.uint64, 13, "uint64", INTEGER),
    _row(np.uint32, 12, "uint32", INTEGER),
    _row(np.uint16, 4, "uint16", INTEGER),
    _row(np.uint8, 2, "uint8", INTEGER),
    _row(ml_dtypes.int4, 22, "int4", INTEGER, 4),
    _row(ml_dtypes.uint4, 21, "uint4", INTEGER, 4),
    _row(np.bool_, 9, "bool", BOOL),
)
BY_NAME: Mapping[str, Element] = MappingProxyType({element.name: element for element in ELEMENTS})
BY_CODE: Mapping[int, Element] = MappingProxyType({element.code: element for element in ELEMENTS})
BY_ORT_NAME: Mapping[str, Element] = MappingProxyType({f"tensor({e.ort_name})": e for e in ELEMENTS})


def element_of(dtype: np.dtype) -> Element:
    """The row of a numpy or ml_dtypes type. Raises ValueError for the types that ONNX Runtime has no tensors of."""
    element = BY_NAME.get(dtype.name)
    if element is None:
        raise ValueError(f"values of type {dtype.name} cannot be given to ONNX Runtime")
    return element


def type_name(ort_type: str) -> str:
    """ "tensor(float)" → "float32"; a type outside the table keeps ONNX Runtime's name."""
    element = BY_ORT_NAME.get(ort_type)
    return element.name if element else ort_type


def pack(array: np.ndarray) -> np.ndarray:
    """Two 4-bit elements a byte, the first in the low half, as ONNX stores them. Returns uint8[(n + 1) // 2]."""
    nibbles = array.reshape(-1).view(np.uint8) & 0x0F
    if nibbles.size % 2:
        nibbles = np.append(nibbles, np.uint8(0))
    return nibbles[0::2] | (nibbles[1::2] << 4)


def unpack(packed: np.ndarray, element: Element, shape: tuple[int, ...]) -> np.ndarray:
    """The inverse of `pack`: uint8[(n + 1) // 2] → `element.dtype` of `shape`."""
    nibbles = np.empty(2 * packed.size, np.uint8)
    nibbles[0::2], nibbles[1::2] = packed & 0x0F, packed >> 4
    nibbles = nibbles[: int(np.prod(shape, dtype=np.int64))]
    if element.name == "int4":  # ml_dtypes reads the whole byte of a signed one
        nibbles = ((nibbles.astype(np.int8) ^ 8) - 8).view(np.uint8)
    return nibbles.view(element.dtype).reshape(shape)
