"""An `if` on a tensor as a cond: what the rewritten functions of `loops` call while they are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import SymBool, SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    free_unbacked_symbols,
    statically_known_true,
)
from torch.utils import _pytree as pytree

Branch = Callable[..., Any]


def depends_on_data(test: Any) -> bool:
    """Whether only a run of the model can tell if this is true."""
    return isinstance(test, Tensor) or (isinstance(test, SymBool) and bool(free_unbacked_symbols(test)))


def not_(test: Any) -> Any:
    if isinstance(test, Tensor):
        return test.logical_not()
    return torch.sym_not(test) if depends_on_data(test) else not test


def and_(first: Any, second: Callable[[], Any]) -> Any:
    """`first and second`; both are computed where the first is a tensor."""
    if not depends_on_data(first):
        return first and second()
    other = second()
    return _predicate(first).logical_and(_predicate(other)) if depends_on_data(other) else first if other else other


def or_(first: Any, second: Callable[[], Any]) -> Any:
    """`first or second`; both are computed where the first is a tensor."""
    if not depends_on_data(first):
        return first or second()
    other = second()
    return _predicate(first).logical_or(_predicate(other)) if depends_on_data(other) else other if other else first


def refused(test: Any) -> Any:
    """The test of an `if` that raises: a graph raises nothing, and is for inputs that the model accepts."""
    return False if depends_on_data(test) else test


def chosen(test: Any, then: Branch, other: Branch, values: tuple[Any, ...], seen: tuple[Any, ...]) -> Any:
    """What the branch that is taken gives for the values and for what it only reads; neither branch changes them."""
    if not depends_on_data(test):
        return then(*values, *seen) if test else other(*values, *seen)
    predicate = _predicate(test) if isinstance(test, Tensor) else test
    held = _Held.of((*values, *seen))
    own = len(values)

    def taken() -> Any:
        given = held.values()
        return _owned(then(*_owned(given[:own]), *given[own:]))

    def left() -> Any:
        given = held.values()
        return _owned(other(*_owned(given[:own]), *given[own:]))

    try:
        return torch.cond(predicate, taken, left, ())
    except Exception:
        if isinstance(test, Tensor):
            raise
        try:
            taking = bool(test)  # there may be an answer to a question about sizes
        except GuardOnDataDependentSymNode:
            taking = None
        if taking is None:
            raise
    return then(*values, *seen) if taking else other(*values, *seen)


class _Held:
    """Values with a tensor for each number that depends on data, since PyTorch lets a branch read no such number.

    A size becomes one of a tensor, which keeps what is known about it; any other number the content of one. To a branch
    all sizes are new ones: it is told of those that are the same.
    """

    def __init__(self, held: list[Any], sizes: list[int], contents: list[int], same: list[tuple[int, int, int]]):
        self.held, self.sizes, self.contents, self.same = held, sizes, contents, same

    @staticmethod
    def of(values: tuple[Any, ...]) -> _Held:
        numbers = [i for i, each in enumerate(values) if isinstance(each, SymInt) and free_unbacked_symbols(each)]
        sizes = [i for i in numbers if statically_known_true(values[i] >= 0)]
        contents = [i for i in numbers if i not in sizes]
        held = list(values)
        for i in numbers:
            held[i] = torch.empty(values[i], 0) if i in sizes else torch.scalar_tensor(values[i], dtype=torch.int64)
        shapes = [each.shape if isinstance(each, Tensor) else () for each in values]
        same = [
            (i, j, axis)
            for i in sizes
            for j, shape in enumerate(shapes)
            for axis, size in enumerate(shape)
            if isinstance(size, SymInt) and statically_known_true(size == values[i])
        ]
        return _Held(held, sizes, contents, same)

    def values(self) -> list[Any]:
        given = list(self.held)
        for i, j, axis in self.same:
            torch._check(given[i].shape[0] == given[j].shape[axis])
        for i in self.sizes:
            given[i] = given[i].shape[0]
        for i in self.contents:
            given[i] = given[i].item()
        return given


def written(before: Any, after: Any) -> Any:
    """A tensor that a branch has written to, with what it then holds."""
    if isinstance(before, Tensor) and before is not after:
        return before.copy_(after)
    return after


def _predicate(test: Any) -> Tensor:
    if isinstance(test, Tensor):
        return test.reshape(()).bool()
    return torch.scalar_tensor(test, dtype=torch.bool)


def _owned(tree: Any) -> Any:
    """Copies, since what a branch gives may alias nothing, and what it takes may not change."""
    return pytree.tree_map_only(Tensor, lambda x: x.clone(), tree)
