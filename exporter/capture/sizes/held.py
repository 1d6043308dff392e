"""Sizes that a model keeps in tensors of no dimension, and reads from them again as sizes.

`torch.div(x.size(1), 2, rounding_mode="trunc")` is a tensor, and Python may use it as a size. PyTorch would take its
content for a number that only data can tell.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from fxport.exporter.capture.knowledge import is_body


def _quotient(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    """Return the rounded quotient of two sizes; None where that is not the floor, or is not rounded."""
    if rounding_mode == "floor" or (rounding_mode == "trunc" and _is_natural(x) and _is_natural(y)):
        return x // y
    return None


def _is_natural(size: Any) -> bool:
    return statically_known_true(size >= 0)


def _held(function: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` of tensors, with results that hold what `symbolic` gives for the sizes."""

    def made(*args: Any, **kwargs: Any) -> Any:
        sizes = [_size(each) for each in args]
        plain = None in sizes or not any(isinstance(each, SymInt) for each in sizes)
        if plain or not kwargs.keys() <= {"rounding_mode"}:
            return NotImplemented
        size = symbolic(*sizes, **kwargs)
        tensor = function(*args, **kwargs)
        if isinstance(tensor, FakeTensor) and isinstance(size, SymInt) and not tensor.dim():
            tensor.item_memo = size
        return tensor

    return made


def _size(value: Any) -> Any:
    """Return a whole number, also one that a tensor is known to hold; None for anything else."""
    if isinstance(value, FakeTensor) and not value.dim() and not value.is_floating_point():
        held = value.item_memo
        return None if isinstance(held, SymInt) and free_unbacked_symbols(held) and is_body() else held
    return value if isinstance(value, (int, SymInt)) and not isinstance(value, bool) else None


HELD: Mapping[Any, Callable[..., Any]] = {
    function: _held(function, symbolic)
    for functions, symbolic in (
        ((torch.div, Tensor.div), _quotient),
        ((torch.floor_divide, Tensor.floor_divide, Tensor.__floordiv__), operator.floordiv),
        ((torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__), operator.add),
        ((torch.sub, Tensor.sub, Tensor.__sub__), operator.sub),
        ((torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__), operator.mul),
    )
    for function in functions
}
"""Each answers NotImplemented where no size is known."""
