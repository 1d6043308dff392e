"""Weights as lazy initializers: nothing is read, copied or converted before the model is saved."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor
from torch._subclasses import FakeTensor

from exporter.lower.builder import SIZES
from exporter.lower.dtypes import onnx_dtype
from fx_passes.passes.complex_values import real_dtype


class WeightlessError(Exception):
    """A weight that has no values, because the model was made without them."""


def initializer(name: str, tensor: torch.Tensor) -> ir.Value:
    """A graph value for a weight, whose bytes are taken from `tensor` when the model is saved.

    A complex weight has a last axis of 2, as `fx_passes.passes.complex_to_real` has made its uses.
    """
    dtype = onnx_dtype(real_dtype(tensor.dtype))
    sizes = (*(int(size) for size in tensor.shape), *((2,) if tensor.is_complex() else ()))
    lazy = ir.LazyTensor(_reader(name, tensor), dtype=dtype, shape=ir.Shape(sizes), name=name)
    value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(sizes), const_value=lazy)
    value.meta[SIZES] = sizes
    return value


def _reader(name: str, tensor: torch.Tensor) -> Callable[[], ir.TensorProtocol]:
    def read() -> ir.TensorProtocol:
        if isinstance(tensor, FakeTensor) or tensor.is_meta:
            raise WeightlessError(f"'{name}' has no values: the model was made without weights")
        values = tensor.detach().cpu()
        values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
        return TorchTensor(values.contiguous(), name=name)

    return read
