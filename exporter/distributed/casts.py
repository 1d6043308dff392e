"""The casts of a mixed-precision policy, as hooks of a module that has lost its wrapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.distributed.utils import _apply_to_tensors, _cast_forward_inputs

from fxport.exporter.capture.arguments.padded import beside_padded

InputsHook = Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]
OutputHook = Callable[[torch.nn.Module, tuple[Any, ...], Any], Any]


def cast_inputs(dtype: torch.dtype) -> InputsHook:
    """A forward pre-hook (with kwargs) that casts floating-point tensors, however nested, as FSDP does.

    Those of packed sequences stay as they are.
    """

    def hook(_: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        return beside_padded(lambda call: _cast_forward_inputs(dtype, *call[0], **call[1]), (args, dict(kwargs)))

    return hook


def cast_output(dtype: torch.dtype) -> OutputHook:
    """A forward hook that casts floating-point tensors of what a module returns."""

    def hook(_: torch.nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        return beside_padded(partial(_apply_to_tensors, partial(cast, dtype)), output)

    return hook


def cast(dtype: torch.dtype, value: Any) -> Any:
    """A floating-point tensor in another precision; anything else as it is."""
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value
