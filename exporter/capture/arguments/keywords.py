"""Keyword arguments that `forward` takes as `**kwargs`: inputs with names of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter
from typing import Any

import torch

from fxport.exporter.capture.forward import replaced_forward


def in_order(model: Any, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return keyword arguments in the order of forward's parameters, those that `**kwargs` collects behind them.

    torch.export flattens them in that order, whatever order they are given in.
    """
    given = dict(kwargs or {})
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        return given
    known = [name for name in inspect.signature(model.forward).parameters if name in given]
    return {name: given[name] for name in (*known, *(name for name in given if name not in known))}


@contextmanager
def known_signature(model: Any, args: Sequence[Any]) -> Iterator[None]:
    """Give a `forward` of which Python knows no signature, such as torch.neg, one while a model is captured.

    Its parameters are those that are given: arg0, arg1, …
    """
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule) or _has_signature(model):
        yield
        return
    inner = model.forward

    def forward(*given: Any, **named: Any) -> Any:
        return inner(*given, **named)

    names = [Parameter(f"arg{number}", Parameter.POSITIONAL_OR_KEYWORD) for number in range(len(args))]
    forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]  # what inspect.signature reads first
    with replaced_forward(model, forward):
        yield


def _has_signature(model: torch.nn.Module) -> bool:
    try:
        inspect.signature(model.forward)
    except ValueError:
        return False
    return True


@contextmanager
def named_keywords(model: Any, kwargs: Mapping[str, Any]) -> Iterator[None]:
    """Make the keywords that `forward(..., **kwargs)` collects parameters like others while a model is captured.

    torch.export flattens the collected ones in one place and not in another, and so finds that `dynamic_shapes` never
    fits. With a name for each there is nothing to flatten, and `dynamic_shapes` speaks of them by these names.
    """
    signature = _signature(model, kwargs)
    if signature is None:
        yield
        return
    inner = model.forward

    @functools.wraps(inner)
    def forward(*args: Any, **given: Any) -> Any:
        return inner(*args, **given)

    forward.__signature__ = signature  # type: ignore[attr-defined]  # what inspect.signature reads first
    with replaced_forward(model, forward):
        yield


def _signature(model: Any, kwargs: Mapping[str, Any]) -> inspect.Signature | None:
    """Return the signature of `forward` with a parameter for each collected keyword; None if none is collected."""
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        return None
    signature = inspect.signature(model.forward)
    kept = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    collected = [name for name in kwargs if name not in {each.name for each in kept}]
    if not collected or len(kept) == len(signature.parameters):
        return None
    return signature.replace(parameters=[*kept, *(Parameter(name, Parameter.KEYWORD_ONLY) for name in collected)])
