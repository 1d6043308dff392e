"""Indices that an iteration of a scan computes from its number, and proofs that they are within an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx import Node

from fxport.fx_passes.graph import fake
from fxport.fx_passes.invariants import Apply, Invariants, is_known, on_values
from fxport.fx_passes.scans import Scan
from fxport.fx_passes.sizes import is_symbolic, size_of

aten = torch.ops.aten

ITERATION = sympy.Symbol("iteration", integer=True)
"""Stands for the number of the iteration in expressions over it."""

ITEMS = frozenset({aten.item.default, aten._local_scalar_dense.default})
"""Ops that read the number out of a tensor."""

SAME_NUMBER = frozenset(
    {
        aten.reshape.default,
        aten.scalar_tensor.default,
        aten.squeeze.dim,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
"""Ops whose result has the one number that the first argument is or has."""


WIDE = (torch.int64, torch.int32)
"""Types of numbers that are as large as an index may be."""


@dataclass(frozen=True)
class Numbers:
    """Contents of `arange(start, stop, step)`, from its last element to its first if `is_flipped`.

    `start` and `stop` are numbers, or nodes of them in the graph around the body; `step` is not 0.
    """

    vector: Node
    start: Any
    stop: Any
    step: int
    is_flipped: bool = False

    @property
    def is_ascending(self) -> bool:
        return (self.step > 0) != self.is_flipped

    def lowest(self, apply: Apply) -> Any:
        """The smallest number, if there is one."""
        return self.start if self.step > 0 else self._last(apply)

    def highest(self, apply: Apply) -> Any:
        """The largest number, if there is one."""
        return self._last(apply) if self.step > 0 else self.start

    def _last(self, apply: Apply) -> Any:
        count = apply(None, aten.sym_size.int, (self.vector, 0))
        steps = apply(None, operator.mul, (apply(None, operator.sub, (count, 1)), self.step))
        return apply(None, operator.add, (self.start, steps))

    def bounds(self) -> tuple[Any, Any]:
        """Values that no number is below or above: as exact as is needed, and easier to compare with sizes."""
        start, stop = fake(self.start), fake(_beyond(self.start, self.stop))
        return (start, stop - 1) if self.step > 0 else (stop + 1, start)


def _beyond(start: Any, stop: Any) -> Any:
    """The stop of a range that has numbers: not `max(start, stop)`, by which an arange allows for one without any."""
    if isinstance(stop, Node) and stop.target in (torch.sym_max, torch.sym_min) and start in stop.args:
        return next((each for each in stop.args if each is not start and each != start), stop)
    return stop


ARANGES: Mapping[Any, Callable[..., tuple[Any, Any, Any]]] = {
    aten.arange.default: lambda stop: (0, stop, 1),
    aten.arange.start: lambda start, stop: (start, stop, 1),
    aten.arange.start_step: lambda start, stop, step=1: (start, stop, step),
}
"""The start, the stop and the step, from the positional arguments."""


def numbers_of(operand: Any) -> Numbers | None:
    """The numbers that a node around the body is known to hold."""
    if not isinstance(operand, Node) or operand.meta["val"].dtype not in WIDE:
        return None
    if operand.target is aten.flip.default:
        of = numbers_of(operand.args[0])
        return of and Numbers(of.vector, of.start, of.stop, of.step, not of.is_flipped)
    if operand.target not in ARANGES:
        return None
    start, stop, step = ARANGES[operand.target](*operand.args)
    whole = all(isinstance(fake(each), (int, torch.SymInt)) for each in (start, stop, step))
    return Numbers(operand, start, stop, step) if whole and type(step) is int else None


@dataclass(frozen=True)
class Place:
    """An index that each iteration computes from its number: `slope * number + something the same for all`.

    `expr` is the index as an expression over ITERATION: two places with the same one, over the same numbers, are the
    same in every iteration.
    """

    numbers: Numbers
    expr: sympy.Expr
    slope: int
    index: Node
    number: frozenset[Node]
    invariants: Invariants

    def is_same(self, other: Place) -> bool:
        return self.expr == other.expr and self.numbers.vector is other.numbers.vector

    def at(self, number: Any, apply: Apply) -> Any:
        """The index where the number of the iteration is another one, computed around the body."""
        given = dict.fromkeys(self.number, number)
        return self.invariants.moved(self.index, apply, given)

    @property
    def stride(self) -> int:
        """The distance between the places of two iterations that follow each other."""
        return abs(self.slope * self.numbers.step)

    @property
    def is_ascending(self) -> bool:
        return (self.slope > 0) == self.numbers.is_ascending

    def lowest(self, apply: Apply) -> Any:
        """The smallest index, if there is an iteration."""
        end = self.numbers.lowest(apply) if self.slope > 0 else self.numbers.highest(apply)
        return self.at(end, apply)

    def is_within(self, size: Any) -> bool:
        """Return True if every index is known to be at least 0 and less than a size: none is counted from the end."""
        ends = [self.at(bound, on_values) for bound in self.numbers.bounds()]
        low, high = ends if self.slope > 0 else ends[::-1]
        return is_known(low >= 0) and is_known(high < size)

    def is_whole(self, size: Any, count: Any) -> bool:
        """Return True if the indices, which are within the size, cover all of it."""
        return self.stride == 1 and is_known(count == size)


def place_of(scan: Scan, argument: Any) -> Place | None:
    """Express an index in the body in terms of the iteration's number; None where that is not known.

    `argument` is a symbolic number, or a tensor that has one number and nothing else.
    """
    index = argument
    while isinstance(index, Node) and index.target in SAME_NUMBER and index.meta["val"].dtype in WIDE:
        index = index.args[0]
    if not isinstance(index, Node):
        return None
    invariants = Invariants(scan.node, scan.additional)
    for each in scan.xs:
        numbers = numbers_of(each.operand)
        if numbers is None:
            continue
        items = frozenset(user for user in each.placeholder.users if user.target in ITEMS)
        if index is each.placeholder:
            return Place(numbers, ITERATION, 1, index, frozenset({index}), invariants)
        expr = _over_iteration(index, items)
        if expr is None:
            continue
        slope = sympy.expand(expr.xreplace({ITERATION: ITERATION + 1}) - expr)
        if isinstance(slope, sympy.Integer) and slope and invariants.covers(index, dict.fromkeys(items)):
            return Place(numbers, expr, int(slope), index, items, invariants)
    return None


def _over_iteration(index: Node, items: frozenset[Node]) -> sympy.Expr | None:
    """The expression of a symbolic number of the body, with ITERATION for the symbols of these numbers."""
    symbols: set[Any] = {size_of(each.meta["val"]) for each in items}
    expr = size_of(index.meta["val"])
    if not is_symbolic(expr) or not all(isinstance(each, sympy.Symbol) for each in symbols):
        return None
    return expr.xreplace(dict.fromkeys(symbols, ITERATION))
