"""Variables and attributes that are None, or not there, on one way, and something else on another one.

No operator gives either. They are taken away behind the statement, so that whoever asks for one is refused: `is None`
of something that stands for both could not be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest import mock

from torch import nn
from torch.fx import _symbolic_trace

from fxport.exporter.capture import holders
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.holders import Holder
from fxport.exporter.capture.patches.module_methods import method_in_place, replaced_method

Reason = tuple[str, frozenset[Line]]
"""A text that says why a value cannot be asked for, and the branches that have made it so."""

_noted: ContextVar[dict[tuple[int, Any], Reason]] = ContextVar("noted")
"""The reasons by the ids of the cells, or of the modules, and names; variables also by their names alone."""


def can_be_undecided(holder: Holder, key: Any) -> bool:
    """Return whether a value can be taken away so that all who ask for it are seen."""
    owner = holder.owner
    if holder.kind is holders.CELL:
        return True
    of_module = isinstance(owner, nn.Module) and holder.kind in (holders.ATTRIBUTES, holders.MEMBERS)
    return of_module and isinstance(key, str) and not hasattr(type(owner), key)


def is_undecided(holder: Holder, key: Any) -> bool:
    return _of(holder, key) in _noted.get({})


def note_undecided(holder: Holder, key: Any, branches: frozenset[Line]) -> None:
    """Note that a value is taken away, because of these branches."""
    name = holder.name_of(key)
    reason = f"'{name}' is None, or not there, on one of its ways, and something else on another"
    found = _noted.get({})
    found[_of(holder, key)] = found[0, name] = reason, branches


def _of(holder: Holder, key: Any) -> tuple[int, Any]:
    return id(holder.owner), None if holder.kind is holders.CELL else key


def asked_for(error: Exception) -> Exception:
    """Return why a variable that was taken away is not there, if that is what Python tells; else the error."""
    name = re.search(r"variable '(\w+)'", str(error)) if isinstance(error, NameError) else None
    reason = _noted.get({}).get((0, name[1])) if name is not None else None
    return error if reason is None else LoopError(*reason).with_traceback(error.__traceback__)


@contextmanager
def undecided_refused() -> Iterator[None]:
    """Refuse meanwhile whatever asks for an attribute that was taken away, also `hasattr`."""
    missing = method_in_place("__getattr__")

    def attribute(self: nn.Module, name: str) -> Any:
        reason = _noted.get({}).get((id(self), name))
        if reason is not None and not any(name in vars(self)[each] for each in ("_buffers", "_parameters", "_modules")):
            raise LoopError(*reason)
        return missing(self, name)

    token = _noted.set({})
    try:
        with (
            replaced_method("__getattr__", attribute),
            mock.patch.object(_symbolic_trace, "_orig_module_getattr", attribute),  # what a trace calls instead
        ):
            yield
    finally:
        _noted.reset(token)
