"""Further causes of a capture that failed because Python asked for a value: those that would show after the first.

The model runs once in PyTorch, which tells the values that its lines ask for. A capture that has these for the lines
that are reported goes on to the next line that cannot be captured, on the way that the example takes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_exception
from fxport.exporter.capture.eager import called, may_write_to, restored
from fxport.exporter.capture.failures import asks_for_values
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.faults import is_our_fault
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.guards.askers import Line, place_of_asker
from fxport.exporter.capture.patches.known_values import ASKING
from fxport.exporter.capture.request import CaptureRequest

MOST = 8
"""Causes after the first that are looked for."""

LONGEST = 2.0
"""Time that the search may take, in parts of what the attempts took that failed."""

LEAST = 2.0
"""Seconds that it may take at any rate."""

Values = Mapping[Line, list[Any]]
"""Values that each line was given when it asked, in order."""


class ValuesNoted(TorchFunctionMode):
    """Note what Python is given of the values of tensors, by the line that asks."""

    def __init__(self, values: dict[Line, list[Any]]) -> None:
        super().__init__()
        self.values = values

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func in ASKING and (line := _asking_line()) is not None:
            self.values.setdefault(line, []).append(answer)
        return answer


class ValuesGiven(TorchFunctionMode):
    """Give some lines the values that were noted, in the same order, instead of what the capture has."""

    def __init__(self, values: Values, lines: Collection[Line]) -> None:
        super().__init__()
        self.left: dict[Line | None, Iterator[Any]] = {line: iter(values[line]) for line in lines}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in ASKING and (left := self.left.get(_asking_line())) is not None:
            for value in left:
                return value
        return func(*args, **(kwargs or {}))


def further_failures(
    request: CaptureRequest, first: Exception, capture: Callable[[CaptureRequest], object], taken: float
) -> Iterator[Exception]:
    """Yield what ends further captures, each of which has values for the lines of those before.

    Args:
        request: The capture that failed.
        first: How it failed.
        capture: Captures, or raises.
        taken: Seconds that the attempts took which failed.
    """
    deadline = time.monotonic() + max(LEAST, LONGEST * taken)
    error = first
    lines: set[Line] = set()
    values = values_asked_for(request.model, (request.args, dict(request.kwargs))) if asks_for_values(first) else {}
    while (line := _line_of(place_of_exception(error))) in values and line not in lines and len(lines) < MOST:
        lines.add(line)

        def call(forward: Any, *args: Any, **kwargs: Any) -> Any:
            with ValuesGiven(values, lines):
                return forward(*args, **kwargs)

        if time.monotonic() > deadline:
            return
        try:
            with forward_by(request.model, call):
                capture(request)
            return
        except Exception as further:  # noqa: BLE001  # whatever a capture raises is a cause
            at = _line_of(place_of_exception(further))
            if is_our_fault(further) or at is None or at in lines:
                return
            error = further
            yield error


def values_asked_for(model: torch.nn.Module, call: tuple[Any, Any]) -> dict[Line, list[Any]]:
    """Return what each line of the model is given in PyTorch; nothing for a model without values, or one that fails."""
    values: dict[Line, list[Any]] = {}
    held = (*model.parameters(), *model.buffers(), *pytree.tree_leaves(call))
    if any(isinstance(tensor, torch.Tensor) and has_no_values(tensor) for tensor in held):
        return {}
    try:
        with (
            warnings.catch_warnings(),
            restored(model, may_write_to(model)),
            ValuesNoted(values),
        ):
            warnings.simplefilter("ignore")  # the model has given them before
            called(model, call)
    except Exception:  # noqa: BLE001  # what the model raises is told by whoever asks whether it runs
        return {}
    return values


def _asking_line() -> Line | None:
    return _line_of(place_of_asker())


def _line_of(place: Place | None) -> Line | None:
    return None if place is None else (place.path, place.line)
