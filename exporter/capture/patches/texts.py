"""Values that become text while a model is captured: that text is the same in every run of the model."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch._subclasses import FakeTensor

from fxport.diagnostics import Place
from fxport.diagnostics.calls import is_formatted, only_tells
from fxport.diagnostics.source import USER, kind_of, lines_of, place_of_stack
from fxport.exporter.capture.patches.known_constants import noted

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool, FakeTensor)


@contextmanager
def texts_noted(places: list[Place]) -> Iterator[None]:
    """Add the lines on which the user's code writes such a value as text, if the capture succeeds.

    A line that prints, logs or raises is none: the model does not depend on its text.
    """
    found: list[Place] = []
    with ExitStack() as patches:
        for kind in SYMBOLIC:
            patches.enter_context(mock.patch.object(kind, "__repr__", _noting(kind.__repr__, found)))
        sized = _noting(lambda self, _: str(self), found)
        patches.enter_context(mock.patch.object(torch.SymInt, "__format__", sized, create=True))
        patches.enter_context(mock.patch.object(FakeTensor, "__format__", _formatting(found)))
        whole, fraction = _of_example(torch.SymInt.__int__, found), _of_example(torch.SymFloat.__float__, found)
        patches.enter_context(mock.patch.object(torch.SymInt, "__int__", whole))
        patches.enter_context(mock.patch.object(torch.SymInt, "__index__", whole))
        patches.enter_context(mock.patch.object(torch.SymFloat, "__float__", fraction))
        yield
    places += dict.fromkeys(found)


def _formatting(found: list[Place]) -> Callable[[FakeTensor, str], str]:
    """Make a function that writes a value that is the same in every run as eager PyTorch does, and notes others."""

    def formatted(self: FakeTensor, spec: str) -> str:
        known = (self.constant if not self.dim() else None) if (value := noted(self)) is None else value
        if known is not None:
            return format(known if known.dim() else known.item(), spec)
        _note(sys._getframe(1), found)
        return torch.Tensor.__format__(self, spec)

    return formatted


def _of_example(number: Callable[[Any], Any], found: list[Place]) -> Callable[[Any], Any]:
    """Make a conversion that gives the example's number where `"%d" % n` asks, and relies on nothing."""

    def converted(self: Any) -> Any:
        caller: Any = sys._getframe(1)
        if not self.node.has_hint() or not _formats(caller):
            return number(self)
        _note(caller, found)
        return self.node.hint

    return converted


def _formats(frame: Any) -> bool:
    """Return whether a frame is about to write a text by `%`."""
    if frame.f_code is logging.LogRecord.getMessage.__code__:
        return True
    line, _, column, _ = [*frame.f_code.co_positions()][frame.f_lasti // 2]
    return is_formatted("".join(lines_of(frame.f_code.co_filename)), line or 0, column or 0)


def _note(caller: Any, found: list[Place]) -> None:
    path, line = caller.f_code.co_filename, caller.f_lineno
    if kind_of(path) == USER and not only_tells("".join(lines_of(path)), line):
        place = place_of_stack([(caller, line)])
        found.extend([place] if place else [])


def _noting(written: Callable[..., str], found: list[Place]) -> Callable[..., str]:
    def text(self: Any, *spec: str) -> str:  # Any: each of SYMBOLIC
        _note(sys._getframe(1), found)
        return written(self, *spec)

    return text
