"""Attributes of modules that a branch or a turn sets, directly or in what it calls: a part of what the way gives.

Where the way is one of several, or one turn of many, nothing of it may stay: the attributes are as they were behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from exporter.capture.arguments.structures import register_dataclasses
from exporter.capture.control_flow.containers import containers_unchanged
from exporter.capture.control_flow.merging import LoopError, form_of

Key = tuple[int, str]


class _Missing:
    """The value of an attribute that there is not."""


class Undecided:
    """An attribute that was None and is a tensor on one of the ways: whoever asks for more than that is refused."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise _refusal()

    def __getattr__(self, name: str) -> Any:
        raise _refusal()

    def __bool__(self) -> bool:
        raise _refusal()


def _refusal() -> LoopError:
    return LoopError("an attribute that a branch sets to another kind of value than the one before")


@dataclass
class Settings:
    """The attributes that ways set, in the order in which they were first set."""

    before: dict[Key, tuple[nn.Module, str, Any]] = field(default_factory=dict)
    undecided: list[tuple[nn.Module, str]] = field(default_factory=list)

    def found(self, way: Callable[..., Any], *inputs: Any) -> tuple[Any, dict[Key, Any]]:
        """What the way gives, and what it leaves in attributes, which are then noted here."""
        with containers_unchanged(way), _undone() as noted:
            result = way(*inputs)
            ends = {key: _get(module, name) for key, (module, name, _) in noted.items()}
        for key, (module, name, value) in noted.items():
            if ends[key] is not value:
                self.before.setdefault(key, (module, name, value))
        return result, ends

    def starts(self) -> tuple[Any, ...]:
        return tuple(value for _, _, value in self.before.values())

    def ends(self, ends: dict[Key, Any]) -> tuple[Any, ...]:
        """One for each of the attributes, also of those that this way does not set."""
        return tuple(ends.get(key, value) for key, (_, _, value) in self.before.items())

    def without_undecided(self, *ways: dict[Key, Any]) -> None:
        """Puts apart those that were None and are a tensor on one of the ways: no operator gives either."""
        for key, (module, name, value) in list(self.before.items()):
            first, *others = (ends.get(key, value) for ends in ways)
            try:
                for other in others or [value]:
                    form_of(first, other)
            except LoopError:
                if value is not None:
                    raise
                del self.before[key]
                self.undecided.append((module, name))

    def run(self, way: Callable[..., Any], values: Sequence[Any], *inputs: Any) -> tuple[Any, tuple[Any, ...]]:
        """What the way gives and leaves in the attributes where these have the values when it begins."""
        with containers_unchanged(way), _undone():
            for (module, name, _), value in zip(self.before.values(), values, strict=True):
                setattr(module, name, value)
            result = way(*inputs)
            return result, tuple(_get(module, name) for module, name, _ in self.before.values())

    def set(self, values: Sequence[Any]) -> None:
        """Leaves the values in the attributes for what follows."""
        for (module, name, _), value in zip(self.before.values(), values, strict=True):
            setattr(module, name, value)
        for module, name in self.undecided:
            setattr(module, name, Undecided())


@contextmanager
def _undone() -> Iterator[dict[Key, tuple[nn.Module, str, Any]]]:
    """Notes what attributes were before they were set, and sets them back at the end."""
    noted: dict[Key, tuple[nn.Module, str, Any]] = {}
    around = nn.Module.__setattr__

    def put(module: nn.Module, name: str, value: Any) -> None:
        made = "_buffers" not in vars(module)  # by the way itself, as a slice of a ModuleList is
        if made or isinstance(module, GraphModule) or type(module) is nn.Module:  # PyTorch's own, to trace the way
            around(module, name, value)
            return
        noted.setdefault((id(module), name), (module, name, _get(module, name)))
        _put(module, name, value)

    nn.Module.__setattr__ = put  # type: ignore[method-assign, assignment]  # put back below
    try:
        yield noted
    finally:
        nn.Module.__setattr__ = around  # type: ignore[method-assign]
        for module, name, value in noted.values():
            _put(module, name, value)


def _get(module: nn.Module, name: str) -> Any:
    return getattr(module, name, _Missing)


def _put(module: nn.Module, name: str, value: Any) -> None:
    """Without PyTorch's hooks, which want to find each tensor that a buffer is set to in the graph around."""
    if name in module._buffers:
        module._buffers[name] = value
    elif value is _Missing:
        module.__dict__.pop(name, None)
    else:
        _PLAIN(module, name, value)


_PLAIN = nn.Module.__setattr__


def holder(value: Any) -> None:
    """Refuses what the statements after it set an attribute of, where no copy of it could be made or undone."""
    register_dataclasses(value)
    leaf = pytree.tree_is_leaf(value)
    if leaf and not isinstance(value, (nn.Module, Tensor)):
        raise LoopError(f"an attribute of a {type(value).__name__} that is set in a branch or a turn")
    if isinstance(value, torch.nn.Parameter):
        raise LoopError("an attribute of a parameter")
