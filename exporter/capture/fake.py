"""Models without memory for their weights: how they are made, and how they are captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

DRAWN_SCALE = 0.1
"""Standard deviation of weights that are drawn: no result of a deep model grows or vanishes much."""


def has_no_values(tensor: torch.Tensor) -> bool:
    """Return whether a tensor was made without memory."""
    return isinstance(tensor, FakeTensor) or tensor.is_meta


@contextmanager
def without_memory() -> Iterator[None]:
    """Give parameters of models that are made meanwhile a type and a shape, but no memory and no values.

    Buffers stay real: those that are no part of a checkpoint, such as the frequencies of rotary embeddings, have their
    values from nowhere else. A parameter that is registered twice stays one.
    """
    register, made = Module.register_parameter, WeakIdKeyDictionary()

    def registered(self: Module, name: str, param: Parameter | None) -> None:
        register(self, name, param)
        if param is None or is_lazy(param) or param.is_meta:  # a lazy one has no shape yet
            return
        if param not in made:
            empty = type(param)(param.detach().to("meta"), requires_grad=param.requires_grad)
            for attribute, value in vars(param).items():
                setattr(empty, attribute, value)
            made[param] = empty
        self._parameters[name] = made[param]

    with mock.patch.object(Module, "register_parameter", registered):
        yield


@contextmanager
def fake_weights(module: Module) -> Iterator[None]:
    """Replace tensors of the module without memory by fake ones on the CPU, which can meet real ones there."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    with _replaced(module, lambda tensor: tensor.is_meta, lambda tensor: _fake(tensor, mode)):
        yield


@contextmanager
def drawn_weights(module: Module) -> Iterator[None]:
    """Replace tensors of the module without values by small random ones on the CPU, the same each time."""
    generator = torch.Generator().manual_seed(0)
    with _replaced(module, has_no_values, lambda tensor: _drawn(tensor, generator)):
        yield


def with_values(results: Any) -> Any:
    """Return results of a model without memory with small random tensors in the place of those without values."""
    generator = torch.Generator().manual_seed(0)
    return pytree.tree_map_only(
        torch.Tensor, lambda tensor: _drawn(tensor, generator) if has_no_values(tensor) else tensor, results
    )


@contextmanager
def _replaced(
    module: Module, chosen: Callable[[torch.Tensor], bool], make: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[None]:
    """Replace chosen parameters and buffers of a module for a while; one that it has twice stays one."""
    replaced = []
    made: dict[int, torch.Tensor] = {}
    for owner in module.modules():
        for held in cast("tuple[dict[str, Any], ...]", (owner._parameters, owner._buffers)):
            for name, tensor in held.items():
                if tensor is None or not chosen(tensor):
                    continue
                if id(tensor) not in made:
                    made[id(tensor)] = make(tensor)
                replaced.append((held, name, tensor))
                held[name] = made[id(tensor)]
    try:
        yield
    finally:
        for held, name, tensor in replaced:
            held[name] = tensor


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    return Parameter(empty, requires_grad=tensor.requires_grad) if isinstance(tensor, Parameter) else empty


def _drawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        values = (torch.randn(tensor.shape, generator=generator) * DRAWN_SCALE).to(tensor.dtype)
    else:
        values = torch.zeros(tensor.shape, dtype=tensor.dtype)
    return Parameter(values, requires_grad=tensor.requires_grad) if isinstance(tensor, Parameter) else values
