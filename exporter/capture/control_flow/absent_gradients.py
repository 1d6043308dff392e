"""Gradients that are absent where an arm or a turn does not run: eager PyTorch has None there, an operator has zeros.

What decides is noted at the results of each branch and loop of Python's that is recorded while gradients are asked
for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch._higher_order_ops.utils import materialize_as_graph

from fxport.exporter.capture.guards.askers import Line, line_that_asks
from fxport.exporter.capture.patches.body_gradients import NODES


class Unknown(NamedTuple):
    """The gradient may be absent, and no value of the trace tells."""

    line: Line | None


Presence = bool | Tensor | Unknown
"""True where a gradient is present; a tensor of one truth value where data tell."""


def either(one: Presence, other: Presence) -> Presence:
    """Return whether at least one of two gradients is present."""
    for first, second in ((one, other), (other, one)):
        if first is True or second is False or first is second:
            return first
        if isinstance(first, Unknown):
            return True if second is True else first
    return torch.logical_or(one, other)  # type: ignore[arg-type]  # both are tensors


def both(test: Presence, other: Presence) -> Presence:
    """Return whether a gradient is present and a test holds."""
    for first, second in ((test, other), (other, test)):
        if first is False or second is True or first is second:
            return first
        if isinstance(first, Unknown):
            return False if second is False else first
    return torch.logical_and(test, other)  # type: ignore[arg-type]  # both are tensors


def any_of(found: Iterable[Presence]) -> Presence:
    """Return whether at least one of the gradients is present."""
    total: Presence = False
    for each in found:
        total = either(total, each)
    return total


class Deciding(Protocol):
    """A test, or several, by which some operands of an operator have a gradient and others not."""

    @property
    def line(self) -> Line | None:
        """The line of the statement."""
        ...

    def of_operands(self, results: Sequence[Presence]) -> list[Presence]:
        """Return the presence for each tensor that the operator was given, from that for each result."""
        ...


MOST_TURNS = 32
"""Turns that are followed, unless one leaves all as the one before it."""

Paths = Mapping[tuple[int, int], Presence]
"""From an operand and a result of a body, by their numbers, whether the gradient goes through."""


@dataclass(frozen=True)
class Arms:
    """A branch: its test, and the paths of the arms. The test is the first of its tensors."""

    test: Tensor
    then: Paths
    other: Paths
    operands: Sequence[int]
    line: Line | None

    def of_operands(self, results: Sequence[Presence]) -> list[Presence]:
        found: list[Presence] = [False]
        for operand in self.operands:
            then, other = (_through(paths, operand, results) for paths in (self.then, self.other))
            same = then is other
            found.append(then if same else either(both(self.test, then), both(self.test.logical_not(), other)))
        return found


@dataclass(frozen=True)
class Turns:
    """A loop: whether it has a turn, and the paths of one. What is carried comes first in operands and in results.

    `operands` are the numbers of the operands that are tensors, `carried` says how many operands are carried.
    """

    has_turn: Presence
    paths: Paths
    operands: Sequence[int]
    carried: int
    line: Line | None

    def of_operands(self, results: Sequence[Presence]) -> list[Presence]:
        surely, perhaps = self._reached(results)
        found: list[Presence] = []
        for operand in self.operands:
            sure = any_of(results[place] for place in surely[operand])
            open_ = any_of(both(Unknown(self.line), results[place]) for place in perhaps[operand] - surely[operand])
            without = results[operand] if operand < min(self.carried, len(results)) else False
            after = either(sure, open_)
            found.append(
                after if after is without else either(both(self.has_turn, after), both(_not(self.has_turn), without))
            )
        return found

    def _reached(self, results: Sequence[Presence]) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
        """Return, for each operand, the results whose gradients come to it: whatever the number of turns, and ever."""
        present = frozenset(place for place, each in enumerate(results) if each is not False)
        count = max((*self.operands, self.carried - 1)) + 1
        always, ever = self._turned(present, count, sure=True), self._turned(present, count, sure=False)
        surely = list[frozenset[int]]()
        for operand in range(count):
            turns = [turn[operand] for turn in (always if operand < self.carried else always[:1])]
            surely.append(frozenset.intersection(*turns))
        return surely, [frozenset.union(*(turn[operand] for turn in ever)) for operand in range(count)]

    def _turned(self, present: frozenset[int], count: int, *, sure: bool) -> list[list[frozenset[int]]]:
        """Return the results whose gradients come to each operand of the first of so many turns."""
        paths: dict[int, list[int]] = {}
        for (operand, place), presence in self.paths.items():
            if presence is True or not sure:
                paths.setdefault(operand, []).append(place)
        behind, turns = [present & {place} for place in range(self.carried)], list[list[frozenset[int]]]()
        for _ in range(MOST_TURNS):
            before = [
                frozenset[int]().union(
                    *(behind[place] if place < self.carried else present & {place} for place in paths.get(operand, ()))
                )
                for operand in range(count)
            ]
            turns.append(before)
            if before[: self.carried] == behind:
                break
            behind = before[: self.carried]
        return turns


@dataclass(frozen=True)
class Either:
    """A choice of one of two tensors. The test is the first of three."""

    test: Tensor
    line: Line | None

    def of_operands(self, results: Sequence[Presence]) -> list[Presence]:
        (result,) = results
        return [False, both(self.test, result), both(self.test.logical_not(), result)]


class _Selected(torch.autograd.Function):
    """`torch.where`, whose node in the graph of autograd is told from those of the model."""

    @staticmethod
    def forward(ctx: Any, test: Tensor, one: Tensor, other: Tensor) -> Tensor:
        ctx.save_for_backward(test)
        return torch.where(test, one, other)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        ((test,), (gradient,)) = ctx.saved_tensors, grads
        none = torch.zeros((), dtype=gradient.dtype, device=gradient.device)
        return None, torch.where(test, gradient, none), torch.where(test, none, gradient)


def selected(test: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """Return one tensor or the other of the same form, of which only one then has a gradient."""
    if not is_recorded((one, other)):
        return torch.where(test, one, other)
    result = _Selected.apply(test, one, other)
    note([result], Either(test, line_that_asks()))
    return result


def is_recorded(values: Sequence[Any]) -> bool:
    """Return whether gradients of an operator that is given these are asked for."""
    return torch.is_grad_enabled() and any(isinstance(each, Tensor) and each.requires_grad for each in values)


def places_of(operands: Sequence[Any]) -> list[int]:
    """Return the numbers of the operands that are tensors."""
    return [place for place, each in enumerate(operands) if isinstance(each, Tensor)]


DECIDING = "fxport_deciding"
"""The attribute of an operator's node in autograd's graph that has what decides."""


def note(results: Sequence[Any], deciding: Deciding) -> None:
    """Note what decides about the operands of the operator that gave the results."""
    node = next((each.grad_fn for each in results if isinstance(each, Tensor) and each.grad_fn is not None), None)
    if node is not None:
        setattr(node, DECIDING, deciding)


def note_turns(
    results: Sequence[Any],
    turn: Callable[..., Any],
    carried: Sequence[Tensor],
    rows: Sequence[Tensor],
    values: Sequence[Any],
    has_turn: Presence,
) -> None:
    """Note what decides about the operands of a loop, where gradients are asked for.

    Args:
        results: The results of the loop.
        turn: Runs one turn, given what is carried, a row, and the values.
        carried: The tensors that the loop begins with.
        rows: A tensor like a row of each tensor of which a turn gets one.
        values: The tensors and numbers that all turns read.
        has_turn: Tells whether there is a turn.
    """
    given = (*carried, *rows, *values)
    if is_recorded(given):
        note(results, Turns(has_turn, paths_of(turn, given), places_of(given), len(carried), line_that_asks()))


def deciding(node: Any) -> Deciding | None:
    """Return what was noted for a node."""
    return getattr(node, DECIDING, None)


def paths_of(body: Callable[..., Any], given: Sequence[Any]) -> Paths:
    """Return the paths of gradients through a body."""
    found: list[Paths] = []

    def followed(*values: Any) -> Any:
        leaves = [_leaf(each) for each in values]
        results = body(*leaves)
        found.append(paths_between(leaves, results))
        return results

    materialize_as_graph(followed, tuple(given), force_enable_grad=True)
    return found[0]


def paths_between(leaves: Sequence[Any], results: Sequence[Any]) -> Paths:
    """Return the paths of gradients from results to leaves, as autograd has them."""
    numbers = {id(leaf): number for number, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}
    found: dict[tuple[int, int], Presence] = {}
    for place, result in enumerate(results):
        if isinstance(result, Tensor) and result.requires_grad:
            surely = set(_reached(result, through_bodies=False))
            for leaf in _reached(result, through_bodies=True):
                if leaf in numbers:
                    found[numbers[leaf], place] = True if leaf in surely else Unknown(line_that_asks())
    return found


def _leaf(value: Any) -> Any:
    return value.detach().requires_grad_() if isinstance(value, Tensor) and value.is_floating_point() else value


def _reached(result: Tensor, through_bodies: bool) -> Iterator[int]:
    """Yield the ids of the leaves that a result's gradient comes to."""
    if result.grad_fn is None:
        yield id(result)
        return
    for node in nodes_behind(result.grad_fn, lambda node: through_bodies or node.name() not in NODES):
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield id(leaf)


def edges_of(node: Any) -> Sequence[tuple[Any, int]]:
    """Return the nodes that a gradient goes on to, each with the number of its result; None where it does not."""
    return node.next_functions


def nodes_behind(first: Any, goes_on: Callable[[Any], bool] = lambda _: True) -> Iterator[Any]:
    """Yield the nodes of autograd's graph that a gradient comes to, the first one, too."""
    waiting, seen = [first], {first}
    while waiting:
        node = waiting.pop()
        yield node
        if goes_on(node):
            fresh = {each for each, _ in edges_of(node) if each is not None} - seen
            seen |= fresh
            waiting.extend(fresh)


def _through(paths: Paths, operand: int, results: Sequence[Presence]) -> Presence:
    return any_of(both(paths.get((operand, place), False), each) for place, each in enumerate(results))


def _not(test: Presence) -> Presence:
    if isinstance(test, Tensor):
        return test.logical_not()
    return test if isinstance(test, Unknown) else not test
