"""Errors that the model catches itself: a graph raises none, so what follows the `except` clause would be lost."""

from __future__ import annotations

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.askers import frames_of_model
from fxport.exporter.capture.guards.handlers import is_caught

CAUGHT = "it may raise an error for some values, which the model catches; a graph raises none"
CURE = "Decide by a test of the values or sizes, for instance with `torch.linalg.cholesky_ex`; or leave `try` out."


SIZED = "it raises an error for this size, which the model catches; at another size it may not"


def require_uncaught(kind: type[Exception], reason: str = CAUGHT) -> None:
    """Raise RefusedError where the model would catch an error of this type that its line may raise."""
    if is_caught(kind, frames_of_model()):
        raise RefusedError(reason, cure=CURE)
