"""Sizes of inputs of which the model's branches ask: only a run tells them, so that a branch on one is an operator.

PyTorch answers a question about a size for the example, and the graph has that way alone. It answers none about the
size of a selection, `x[mask]`, so that `if n % 2:` becomes part of the graph there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.sizes.promises import UNLIMITED
from fxport.exporter.capture.sizes.shapes import Request
from fxport.fx_passes.data_sizes import OPEN, sized_by_data
from fxport.fx_passes.sizes import size_of

_of_inputs: ContextVar[frozenset[Any]] = ContextVar("of_inputs", default=frozenset())
"""The symbols of these sizes, while the model runs."""

_ends: ContextVar[float] = ContextVar("ends", default=math.inf)
"""The time of this thread at which a capture has taken long enough."""

TOO_LONG = "it takes too long to capture with sizes that only a run tells"

WRITTEN = "it writes to an input whose size only a run tells"


@contextmanager
def sizes_as_data(model: torch.nn.Module, requests: Sequence[Request]) -> Iterator[None]:
    """Let only a run tell these sizes of inputs; those of one name are one size."""
    asked = {(each.input, each.axis): each for each in requests}

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if get_proxy_mode() is None:
            return forward(*args, **kwargs)
        arguments = arguments_of(model, args, kwargs)
        leaves, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in arguments if name in kwargs}))
        known: dict[Any, Any] = {}
        sized = [
            _sized(leaf.path, value, asked, known) for leaf, value in zip(leaves_of(arguments), leaves, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(sized, spec)
        token = _of_inputs.set(frozenset(size_of(each) for each in known.values()))
        try:
            result = forward(*args, **kwargs)
        finally:
            _of_inputs.reset(token)
        if any(new is not old and new._version for new, old in zip(sized, leaves, strict=True)):
            raise RefusedError(WRITTEN)
        return result

    with forward_by(model, call):
        yield


def _sized(path: str, value: Any, asked: dict[tuple[str, int | None], Request], known: dict[Any, Any]) -> Any:
    """Return a tensor with the sizes that are asked for, new ones unless `known` has that of their name."""
    if not isinstance(value, Tensor):
        return value
    requests = {axis: asked[path, axis] for axis in range(value.dim()) if (path, axis) in asked}
    names = {axis: each.name or each for axis, each in requests.items()}
    firsts = {name: axis for axis, name in reversed(names.items()) if name not in known}
    if opened := sorted(firsts.values()):
        bounds = [requests[axis].bounds for axis in opened]
        least, most = [max(low, 1) for low, _ in bounds], [UNLIMITED if high is None else high for _, high in bounds]
        value = sized_by_data(value, [OPEN if i in opened else size for i, size in enumerate(value.shape)], least, most)
        known.update((name, value.shape[axis]) for name, axis in firsts.items())
    if len(opened) < len(names):
        value = sized_by_data(value, [known[names[i]] if i in names else n for i, n in enumerate(value.shape)], [], [])
    return value


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Let what is captured meanwhile take so many seconds of this thread's own time; other load changes nothing."""
    token = _ends.set(time.thread_time() + seconds)
    try:
        yield
    finally:
        _ends.reset(token)


def require_time() -> None:
    """Raise RefusedError once the time is over."""
    if time.thread_time() > _ends.get():
        raise RefusedError(TOO_LONG)


def is_about_inputs(test: Any) -> bool:
    """Return whether a symbolic truth is one about such sizes of inputs alone."""
    symbols = test.node.expr.free_symbols if isinstance(test, (torch.SymBool, torch.SymInt)) else frozenset()
    return bool(symbols) and symbols <= _of_inputs.get()
