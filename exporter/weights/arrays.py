"""Tensors of PyTorch as arrays of NumPy, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx_ir.tensor_adapters import TorchTensor

from fxport.exporter.lowering.lower.dtypes import DTYPES

Arrays = dict[str, np.ndarray]
TO_TORCH = {onnx.numpy().name: torch_dtype for torch_dtype, onnx in DTYPES.items() if not torch_dtype.is_complex}


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor's values as NumPy holds them, on their own; bfloat16 and float8 as the types of ml_dtypes.

    A complex tensor has a last axis of 2, as the exported model has it.
    """
    values = tensor.detach().cpu().resolve_conj().resolve_neg()
    values = torch.view_as_real(values) if values.is_complex() else values
    return TorchTensor(values.contiguous().clone()).numpy()


def as_value(array: np.ndarray, fake: Any) -> Any:
    """The inverse of `as_array`: a tensor of the type and on the device of `fake`, or the number that it stands for."""
    tensor = as_tensor(array)
    if not isinstance(fake, torch.Tensor):
        return tensor.item()
    tensor = torch.view_as_complex(tensor) if fake.is_complex() and not tensor.is_complex() else tensor
    return tensor.to(fake.device)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor with a copy of an array's values, also in the types of ml_dtypes."""
    whole = np.ascontiguousarray(array).reshape(array.shape)
    raw = whole.view(f"i{whole.dtype.itemsize}") if whole.dtype.type.__module__ != "numpy" else whole
    return torch.from_numpy(raw.copy()).view(TO_TORCH[array.dtype.name])
