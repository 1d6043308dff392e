"""An `if` on a tensor as a cond: what the rewritten functions of `loops` call while they are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import SymBool, Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
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


def chosen(test: Any, then: Branch, other: Branch, values: tuple[Any, ...]) -> Any:
    """What the branch that is taken gives for the values; neither branch changes them."""
    if not depends_on_data(test):
        return then(*values) if test else other(*values)
    predicate = _predicate(test) if isinstance(test, Tensor) else test

    def taken() -> Any:
        return _owned(then(*_owned(values)))

    def left() -> Any:
        return _owned(other(*_owned(values)))

    return torch.cond(predicate, taken, left, ())


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
