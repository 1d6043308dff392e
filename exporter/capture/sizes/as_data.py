"""Sizes of inputs of which the model's branches ask: only a run tells them, so that a branch on one is an operator.

PyTorch answers a question about a size for the example, and the graph has that way alone. It answers none about the
size of a selection, `x[mask]`, so that `if n % 2:` becomes part of the graph there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

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

_facts: ContextVar[tuple[Any, ...]] = ContextVar("facts", default=())
"""Conditions of the branches around that hold in the arms that run."""

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


def are_any() -> bool:
    """Return whether a model runs of whose inputs only a run tells some size."""
    return bool(_of_inputs.get())


def is_about_inputs(test: Any) -> bool:
    """Return whether a symbolic truth is one about such sizes of inputs alone."""
    symbols = test.node.expr.free_symbols if isinstance(test, (torch.SymBool, torch.SymInt)) else frozenset()
    return bool(symbols) and symbols <= _of_inputs.get()


@contextmanager
def in_arm(test: Any, answer: bool) -> Iterator[None]:
    """Let `holds` know meanwhile that a test has this answer, as it has in one arm of a branch."""
    fact = test.node.expr if isinstance(test, torch.SymBool) else None
    known = () if fact is None else (fact if answer else sympy.Not(fact),)
    token = _facts.set((*_facts.get(), *known))
    try:
        yield
    finally:
        _facts.reset(token)


def holds(condition: Any) -> bool:
    """Return whether a condition on sizes holds for all of them with which the arm that runs is reached.

    Of the tests around, those count that compare a size with a number. PyTorch takes sizes that it traces to be 2 at
    least, and they may be 1: what it knows is no proof then.
    """
    if not isinstance(condition, torch.SymBool):
        return bool(condition)
    env, asked = condition.node.shape_env, condition.node.expr
    traced = asked.free_symbols - free_unbacked_symbols(asked)
    ranges = {each: env.var_to_range[each] for each in asked.free_symbols if each in env.var_to_range}
    ranges |= {each: ranges[each] | ValueRanges(1, 1) for each in traced & ranges.keys()}
    for fact in _facts.get():
        _narrow(ranges, fact)
    return bound_sympy(asked, ranges).lower is sympy.true or (not traced and statically_known_true(condition))


def _narrow(ranges: dict[Any, ValueRanges[Any]], fact: Any) -> None:
    """Take from the range of a size what a comparison of it with a whole number excludes."""
    if not isinstance(fact, sympy.Rel) or not fact.rhs.is_Integer or fact.lhs not in ranges:
        fact = fact.reversed if isinstance(fact, sympy.Rel) else fact
    is_limit = isinstance(fact, tuple(LIMITS)) and fact.rhs.is_Integer and fact.lhs in ranges
    if not is_limit or not fact.lhs.is_integer:
        return
    low, high = LIMITS[type(fact)](fact.rhs)
    found = ranges[fact.lhs]
    if low <= found.upper and high >= found.lower:  # else nothing reaches the arm
        ranges[fact.lhs] = found & ValueRanges(low, high)


LIMITS: Mapping[type[sympy.Rel], Callable[[Any], tuple[Any, Any]]] = {
    sympy.Gt: lambda limit: (limit + 1, int_oo),
    sympy.Ge: lambda limit: (limit, int_oo),
    sympy.Lt: lambda limit: (-int_oo, limit - 1),
    sympy.Le: lambda limit: (-int_oo, limit),
    sympy.Eq: lambda limit: (limit, limit),
}
"""The whole numbers for which a comparison with one holds."""
