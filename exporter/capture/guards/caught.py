"""Errors that the model catches itself: a graph raises none, so what follows the `except` clause would be lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.askers import frames_of_model
from fxport.exporter.capture.guards.handlers import is_caught

CAUGHT = "it may raise an error for some values, which the model catches; a graph raises none"
CURE = "Decide by a test of the values or sizes, for instance with `torch.linalg.cholesky_ex`; or leave `try` out."


SIZED = "it raises an error for this size, which the model catches; at another size it may not"

NOT_IN_MEMORY = "it raises an error while it is captured, which the model catches; in PyTorch it raises none"


_noted: list[list[type[Exception]]] = []


@contextmanager
def errors_noted() -> Iterator[list[type[Exception]]]:
    """Give a list that meanwhile gets the types of the errors that lines may raise, for some values."""
    noted: list[type[Exception]] = []
    _noted.append(noted)
    try:
        yield noted
    finally:
        _noted.pop()


def require_uncaught(kind: type[Exception], reason: str = CAUGHT) -> None:
    """Note that a line may raise an error of this type. Raise RefusedError where the model would catch it."""
    for noted in _noted:
        noted.append(kind)
    if would_be_caught(kind):
        raise RefusedError(reason, cure=CURE)


def would_be_caught(kind: type[Exception]) -> bool:
    """Return whether the model would catch an error of this type that the line raises which runs."""
    return is_caught(kind, frames_of_model())
