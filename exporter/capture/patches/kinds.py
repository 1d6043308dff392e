"""`isinstance` and `type` in a capture: symbolic sizes and fake tensors are of the kinds that they stand for.

To Python a symbolic size is no int, and the tensor of a capture no `torch.Tensor` but of a subclass of its own.
"""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import GenericAlias
from typing import Any
from unittest import mock

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from fxport.exporter.capture.control_flow.alternatives import agreed, identity_of, is_chosen
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.patches.mixed_kinds import KINDS, MERGED_TRUTH, OF_ONE_KIND, SAMPLES, kinds_of
from fxport.exporter.capture.patches.users_modules import users_modules

STANDS_FOR: Mapping[type, Any] = {torch.SymInt: 0, torch.SymFloat: 0.5, torch.SymBool: True}
"""A number of the kind that eager PyTorch has in the place of each."""

OF_A_CAPTURE = (FakeTensor, FunctionalTensor)

EAGER: Mapping[type, type] = {
    **{symbolic: builtins.type(plain) for symbolic, plain in STANDS_FOR.items()},
    **dict.fromkeys(OF_A_CAPTURE, torch.Tensor),
}
"""The types that eager PyTorch has in the place of those of a capture."""

OTHERS = frozenset({"torch", "builtins", "typing", "abc"})
"""Packages that know of symbolic numbers, or have no model in them."""

UNKNOWN = "it asks for the type of a number that is {names}, as data has it"


def is_kind(value: Any, kinds: Any) -> bool:
    """Return what Python's isinstance does, with symbolic numbers as the plain ones that they stand for.

    Raises RefusedError where that depends on data, and LoopError for a tensor that data choose.
    """
    if is_chosen(value):
        return agreed("the type", lambda each: is_kind(each, kinds), value)
    if hasattr(value, KINDS):
        answers = {isinstance(SAMPLES[kind], kinds) for kind in kinds_of(value)}
        if len(answers) > 1:
            raise _unknown(value)
        return answers.pop()
    if hasattr(value, MERGED_TRUTH):
        return isinstance(True, kinds)
    return isinstance(value, kinds) or (type(value) in STANDS_FOR and isinstance(STANDS_FOR[type(value)], kinds))


CHOICE = "_fxport_choice"
"""The attribute of a class whose values stand for one of several; their `__class__` is that of all, or is refused."""


def type_of(value: Any) -> type:
    """Return the type that eager PyTorch has in the place of a value of a capture, else the value's own.

    Raises RefusedError where that depends on data, and LoopError for a tensor that data choose.
    """
    if is_chosen(value):
        return agreed("the type", type_of, value)
    kind = builtins.type(value)
    if hasattr(kind, CHOICE):
        return value.__class__
    if hasattr(value, MERGED_TRUTH):
        return bool
    if kind in OF_A_CAPTURE and isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter
    if hasattr(value, KINDS):
        raise _unknown(value)
    return EAGER.get(kind, Type if kind is builtins.type else kind)


def _unknown(value: Any) -> RefusedError:
    names = " or ".join(sorted(kind.__name__ for kind in kinds_of(value)))
    return RefusedError(UNKNOWN.format(names=names), cure=OF_ONE_KIND)


class _TypeOfType(builtins.type):
    """Metaclass of `Type`: does what Python's `type` does, but for values of a capture."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return type_of(*args) if len(args) == 1 and not kwargs else builtins.type(*args, **kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, builtins.type)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, builtins.type)


class Type(builtins.type, metaclass=_TypeOfType):
    """Stands for Python's `type` in the files of a model."""

    def __class_getitem__(cls, item: Any) -> GenericAlias:
        return GenericAlias(builtins.type, item)


REPLACED: Mapping[str, Any] = {"isinstance": is_kind, "type": Type, "id": identity_of}
"""Builtins by name, and the globals that come before them."""


def namespaces_of(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Return the globals of the user's files, and of those of the classes of the model."""
    names = {kind.__module__ for module in model.modules() for kind in builtins.type(module).__mro__}
    known = [name for name in names if name in sys.modules and name.partition(".")[0] not in OTHERS]
    return [vars(module) for module in {**users_modules(), **{name: sys.modules[name] for name in known}}.values()]


@contextmanager
def python_kinds(model: torch.nn.Module) -> Iterator[None]:
    """Replace the builtins of REPLACED in the files of the model, and what `functools.singledispatch` looks for."""
    changed: list[tuple[dict[str, Any], str]] = []
    find = functools._find_impl  # type: ignore[attr-defined]  # a function of Python's library
    try:
        for held in namespaces_of(model):
            for builtin, other in REPLACED.items():
                if builtin not in held:
                    held[builtin] = other
                    changed.append((held, builtin))
        with mock.patch.object(functools, "_find_impl", lambda kind, registry: find(EAGER.get(kind, kind), registry)):
            yield
    finally:
        for held, builtin in changed:
            held.pop(builtin, None)
