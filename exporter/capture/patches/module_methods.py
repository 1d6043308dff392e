"""Special methods of all modules, replaced many times in a capture without a visit of each class of layers.

Python, given another `__getattr__`, `__call__` or `__setattr__` of a class, looks through all classes below it: that of
`nn.Module` has hundreds, with transformers thousands. Each trace of a body replaces two of these methods, and so do
parts of a capture. So a capture gives `nn.Module` once methods that call those that are in place at the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch import nn
from torch.fx import _symbolic_trace

_in_place: dict[str, list[Callable[..., Any]]] = {}
"""The methods in place, the last the one that is called; none outside of `methods_in_place`."""


@contextmanager
def methods_in_place() -> Iterator[None]:
    """Let `replaced_method`, and traces of PyTorch, replace methods of all modules at little cost meanwhile."""
    if _in_place:
        yield
        return
    _in_place.update((name, [method]) for name, method in _of_class().items())
    try:
        with (
            mock.patch.object(nn.Module, "__call__", _call),
            mock.patch.object(nn.Module, "__getattr__", _attribute),
            mock.patch.object(nn.Module, "__setattr__", _assign),
            mock.patch.object(_symbolic_trace, "_PatchedFnSetAttr", _Replaced),
        ):
            yield
    finally:
        _in_place.clear()


@contextmanager
def replaced_method(name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Have all modules use this method meanwhile."""
    replaced = _Replaced(nn.Module, name, _of_class()[name], method)
    replaced.patch()
    try:
        yield
    finally:
        replaced.revert()


def method_in_place(name: str) -> Callable[..., Any]:
    """Return the method that all modules use now."""
    return _in_place[name][-1] if _in_place else _of_class()[name]


class _Replaced(_symbolic_trace._PatchedFnSetAttr):
    """One method replaced, by a trace or by `replaced_method`."""

    def patch(self) -> None:
        if self._is_in_place():
            _in_place[self.fn_name].append(self.new_fn)
        else:
            super().patch()

    def revert(self) -> None:
        if self._is_in_place():
            methods = _in_place[self.fn_name]
            del methods[len(methods) - 1 - [*reversed(methods)].index(self.new_fn)]
        else:
            super().revert()

    def _is_in_place(self) -> bool:
        return self.frame_dict is nn.Module and self.fn_name in _in_place


def _of_class() -> Mapping[str, Callable[..., Any]]:
    kind = nn.Module
    return {"__call__": kind.__call__, "__getattr__": kind.__getattr__, "__setattr__": kind.__setattr__}


def _call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return _in_place["__call__"][-1](module, *args, **kwargs)


def _attribute(module: nn.Module, name: str) -> Any:
    return _in_place["__getattr__"][-1](module, name)


def _assign(module: nn.Module, name: str, value: Any) -> None:
    _in_place["__setattr__"][-1](module, name, value)
