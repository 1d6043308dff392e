"""Casts, and tensors of one number."""

from __future__ import annotations

from typing import Any

import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.registry import lowering

aten = torch.ops.aten
prims = torch.ops.prims


@lowering(aten._to_copy.default)
def to_copy(op: Op, x: Value | Scalar, *, dtype: Any = None) -> Value:
    """_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor

    ONNX's Cast is PyTorch's: floats are truncated to integers, integers wrap, and truth is what is not 0. Below
    autograd PyTorch has numbers where a tensor of one number is meant.
    """  # noqa: E501  # the schema
    return op.cast(op.const(x), op.out.dtype)


@lowering(
    aten.to.device,
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.other,
    aten.type_as.default,
    prims.convert_element_type.default,
    prims.device_put.default,
)
def to(op: Op, x: Value, *where: Any, dtype: Any = None) -> Value:
    """to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)"""  # noqa: E501  # the schema
    return op.cast(x, op.out.dtype)


@lowering(aten.scalar_tensor.default, prims.scalar_tensor.default)
def scalar_tensor(op: Op, s: Scalar, *, dtype: Any = None) -> Value:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""  # noqa: E501  # the schema
    return op.const(s, dtype=op.out.dtype)
