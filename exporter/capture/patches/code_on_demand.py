"""Code of graphs, written when somebody runs or reads it, not whenever a graph is changed.

PyTorch writes and compiles the Python of a graph some twenty times during an export, whose passes look at the graph
alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from torch.fx import GraphModule

_WRITTEN = GraphModule.recompile
_STAND_INS = ("code", "__str__")


@contextmanager
def code_on_demand() -> Iterator[None]:
    """Meanwhile, let `recompile` put off its work; a module still owes it when this ends, and does it when asked.

    A class of modules that has a `recompile` of its own keeps it.
    """
    with mock.patch.object(GraphModule, "recompile", _put_off):
        yield


def _put_off(self: GraphModule) -> None:
    """Forget the code of a module; each module has a class of its own."""
    pytree = getattr(self.graph._codegen, "pytree_info", None)
    if pytree is not None:
        self._in_spec, self._out_spec = pytree.in_spec, pytree.out_spec
    kind: Any = type(self)
    kind.forward, kind.code, kind.__str__ = _FORWARD, property(_code), _text


class _Forward:
    """The `forward` of a module that owes its code: who reads it, as for its signature, gets the written one."""

    def __get__(self, module: GraphModule | None, kind: Any) -> Any:
        if module is None:
            return self
        _write(module)
        return kind.forward.__get__(module, kind)


_FORWARD = _Forward()


def _write(self: GraphModule) -> None:
    """Write the code, if it is owed."""
    kind = type(self)
    if vars(kind).get("forward") is _FORWARD:
        for name in _STAND_INS:
            delattr(kind, name)
        _WRITTEN(self)


def _code(self: Any) -> str:
    _write(self)
    kind: Any = super(type(self), self)
    return kind.code


def _text(self: Any) -> str:
    _write(self)
    return super(type(self), self).__str__()
