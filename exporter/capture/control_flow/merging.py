"""What ways through a program give, of which only a run takes one: brought into one form that all can have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from exporter.capture.arguments.structures import register_dataclasses


class LoopError(Exception):
    """A loop or a branch that no operator stands for after all. The capture goes on as if it had not been looked at."""


class _Unset:
    """The value of a name that is not bound yet."""


UNSET = _Unset()

DTYPES: Mapping[Any, torch.dtype] = {
    **dict.fromkeys((bool, SymBool), torch.bool),
    **dict.fromkeys((int, SymInt), torch.int64),
    **dict.fromkeys((float, SymFloat), torch.float64),
}
"""Of the tensors that numbers travel in."""

PLAIN = (bool, int, float)


@dataclass(frozen=True, slots=True)
class Constant:
    """A leaf that is the same on all ways."""

    value: Any


@dataclass(frozen=True, slots=True)
class Like:
    """A leaf that is such a tensor. It holds none: to ask a tensor from outside for its dtype is to read it."""

    dtype: torch.dtype
    sizes: tuple[Any, ...]
    device: torch.device


Leaf = Like | type | Constant
"""What a leaf is: like this tensor, a number of this type, or a constant."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is made of tensors."""

    spec: Any
    leaves: tuple[Leaf, ...]

    def tensors(self, value: Any, *, whole: bool = False) -> list[Tensor]:
        """The tensors of a value of this form: copies, since what a way gives may alias nothing.

        With `whole`, a number in the place of a tensor is one of that tensor's sizes: `total = 0.0` is added to.
        """
        found = _flat(value, self.spec)
        return [
            opaque(_as(leaf, like, whole))
            for leaf, like in zip(found, self.leaves, strict=True)
            if not isinstance(like, Constant)
        ]

    def value(self, tensors: Sequence[Tensor]) -> Any:
        """The value of these tensors."""
        rest = iter(tensors)
        return pytree.tree_unflatten([_of(like, rest) for like in self.leaves], self.spec)


def opaque(tensor: Tensor) -> Tensor:
    """The tensor, of which the capture no longer knows what it holds: another turn, or another way, may change that."""
    if isinstance(tensor, FakeTensor):
        tensor.constant = None
    return tensor


def form_of(first: Any, second: Any, *, changing: bool = False) -> Form:
    """The form that both values can have. With `changing`, equal numbers are none of the others' to come."""
    register_dataclasses((first, second))
    spec = pytree.tree_structure(_whole(first, second))
    pairs = zip(_flat(first, spec), _flat(second, spec), strict=True)
    return Form(spec, tuple(_leaf(one, two, changing) for one, two in pairs))


def _whole(first: Any, second: Any) -> Any:
    """The value that has all that either of them has."""
    if first is UNSET:
        return second
    if type(first) is type(second) is tuple and len(first) == len(second):
        return tuple(map(_whole, first, second))
    return first


def _flat(value: Any, spec: Any) -> list[Any]:
    """The leaves; what is not set has none of its own."""
    leaves = pytree._broadcast_to_and_flatten(value, spec)
    if leaves is None:
        raise LoopError("two ways that give values of other structures")
    return leaves


def _leaf(one: Any, two: Any, changing: bool) -> Leaf:
    one, two = (two, two) if one is UNSET else (one, one) if two is UNSET else (one, two)
    for tensor, other in ((one, two), (two, one)):
        if isinstance(tensor, Tensor) and (isinstance(other, Tensor) or type(other) in DTYPES):
            return Like(tensor.dtype, tuple(tensor.shape), tensor.device)
    same = one is two or (
        type(one) is type(two) and not isinstance(one, Tensor) and one is not None and _equal(one, two)
    )
    if type(one) in DTYPES and type(two) in DTYPES and not (same and type(one) in PLAIN and not changing):
        kinds = {DTYPES[type(one)], DTYPES[type(two)]}
        return next(kind for kind in (float, int, bool) if DTYPES[kind] in kinds)
    if same:
        return Constant(one)
    raise LoopError("two ways that give other things than tensors")


def _equal(one: Any, two: Any) -> bool:
    return type(one) in (*PLAIN, str) and one == two


def _as(leaf: Any, like: Like | type, whole: bool) -> Tensor:
    dtype = like.dtype if isinstance(like, Like) else DTYPES[like]
    if isinstance(leaf, Tensor):
        return leaf.clone(memory_format=torch.contiguous_format)  # PyTorch wants the same order of strides on all ways
    if leaf is not UNSET:
        if whole and isinstance(like, Like):
            return torch.full(like.sizes, leaf, dtype=dtype, device=like.device)
        return torch.scalar_tensor(leaf, dtype=dtype)
    if not isinstance(like, Like):
        return torch.zeros((), dtype=dtype)
    sizes = [0 if free_unbacked_symbols(size) else size for size in like.sizes]  # which the other way may not know
    return torch.zeros(sizes, dtype=dtype, device=like.device)


def _of(like: Leaf, tensors: Iterator[Tensor]) -> Any:
    if isinstance(like, Constant):
        return like.value
    tensor = next(tensors)
    return tensor if isinstance(like, Like) or like is bool else tensor.item()  # a truth value may be either
