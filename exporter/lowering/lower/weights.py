"""Weights as lazy initializers: nothing is read, copied or converted before the model is saved."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.dtypes import onnx_dtype
from fxport.exporter.weights.stored import Region, Stored
from fxport.fx_passes.passes.complex_values import real_dtype
from fxport.fx_passes.program import WeightSource


class WeightlessError(FxportError):
    """A weight that has no values, because the model was made without them."""


class LazyWeight(ir.LazyTensor):
    """A weight that is computed when it is read. In a dump it has its name, not the address of the function."""

    def __repr__(self) -> str:
        return f"{self._repr_base()}(name={self.name!r})"


class RegionTensor(LazyWeight):
    """A weight that lies in a file as ONNX would have it: at `region`."""

    def __init__(self, name: str, dtype: ir.DataType, shape: ir.Shape, region: Region) -> None:
        def tensor() -> ir.ExternalTensor:
            return ir.ExternalTensor(region.path, region.offset, region.length, dtype, shape=shape, name=name)

        super().__init__(tensor, dtype=dtype, shape=shape, name=name)
        self.region = region


def initializer(name: str, tensor: torch.Tensor, source: WeightSource | None = None) -> ir.Value:
    """A graph value for a weight, whose bytes are taken from `source`, or else `tensor`, when the model is saved.

    Type and shape are the tensor's. A complex weight has a last axis of 2, as
    `fxport.fx_passes.passes.complex_to_real` has made its uses.
    """
    dtype = onnx_dtype(real_dtype(tensor.dtype))
    sizes = (*(int(size) for size in tensor.shape), *((2,) if tensor.is_complex() else ()))
    shape = ir.Shape(sizes)
    if isinstance(source, Stored) and source.region is not None and source.dtype == tensor.dtype and source.nbytes:
        lazy = RegionTensor(name, dtype, shape, source.region)
    else:
        lazy = LazyWeight(_reader(name, tensor, source), dtype=dtype, shape=shape, name=name)
    value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(sizes), const_value=lazy)
    value.meta[SIZES] = sizes
    return value


def values_of(name: str, tensor: torch.Tensor, source: WeightSource | None) -> torch.Tensor:
    """The values of a weight on the CPU, real and in the type of `tensor`. Raises WeightlessError if it has none."""
    if source is None and has_no_values(tensor):
        raise WeightlessError(f"'{name}' has no values: the model was made without weights")
    held = tensor if source is None else source.read().to(tensor.dtype)
    values = held.detach().cpu()
    return torch.view_as_real(values.resolve_conj()) if values.is_complex() else values


def _reader(name: str, tensor: torch.Tensor, source: WeightSource | None) -> Callable[[], ir.TensorProtocol]:
    return lambda: TorchTensor(values_of(name, tensor, source).contiguous(), name=name)
