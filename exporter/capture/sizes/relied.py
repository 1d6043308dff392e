"""Conditions on free sizes that a captured graph relies on, sorted by how many of the sizes they bind."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.diagnostics import Place
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.sizes.conditions import far_sizes, few_sizes, grid, test_of
from fxport.exporter.capture.sizes.shapes import Request
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.program import Program
from fxport.fx_passes.sizes import rebuilt, sizes_of

aten = torch.ops.aten
Symbol = sympy.Symbol

SMALLEST = 2
"""PyTorch traces a dynamic size as if it were neither 0 nor 1, and its ops do the same at 1 as at any other size."""

SQUEEZES = (aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
"""Ops whose result has another number of axes where a size is 1."""

OF_ROWS = (aten.cov.default, aten.corrcoef.default)
"""Ops that give a number, and no matrix, where their matrix has one row."""


@dataclass(frozen=True, slots=True)
class Relied:
    """A condition on free sizes. It is also asked about the size 1 if it is `from_one`."""

    condition: sympy.Basic
    symbols: tuple[Symbol, ...]
    place: Place | None
    from_one: bool
    guard: Guard | None

    def leaves_out(self, size: int | None) -> bool:
        """Return whether the operator that is lowered for all sizes gives something else at this size, of several."""
        return self.guard is None and size is not None and size > 1 and not test_of(self.condition, self.symbols)(size)


@dataclass(frozen=True)
class Sorted:
    """Conditions on one size each, by its symbol, and conditions that bind several; in the order of the run."""

    alone: dict[Symbol, list[Relied]] = field(default_factory=dict)
    joint: list[Relied] = field(default_factory=list)


def sorted_conditions(program: Program, guards: Sequence[Guard], owner: Mapping[Symbol, Request]) -> Sorted:
    """Return the conditions that say something about the sizes of `owner`, each once.

    Of what ops asked, only what could make them fail counts: by the rest they choose among equal computations.
    """
    found: dict[sympy.Basic, Relied] = {}
    for each in (*stated(guards), *_of_squeezes(program), *_of_slices(program)):
        if all(symbol in owner for symbol in each.symbols):
            found.setdefault(each.condition, each)
    result = Sorted()
    for relied in found.values():
        alone = _alone(relied, owner)
        if alone is None:
            result.joint.append(relied)
        elif alone.symbols:
            result.alone.setdefault(alone.symbols[0], []).append(alone)
    return result


def _alone(relied: Relied, owner: Mapping[Symbol, Request]) -> Relied | None:
    """Return the condition as one about a single size, if it is one: others may be mentioned and not matter."""
    if len(relied.symbols) == 1:
        return relied
    if len(relied.symbols) > 3:
        return None
    sizes = {symbol: owner[symbol].size or SMALLEST for symbol in relied.symbols}
    least = 1 if relied.from_one else SMALLEST
    far = far_sizes(relied.condition)
    choices = [[*dict.fromkeys((*few_sizes(least, None, size, 12), *far))] for size in sizes.values()]
    test = test_of(relied.condition, relied.symbols)
    truth = {point: test(*point) for point in grid(choices)}
    if all(truth.values()):  # which of them matters shows at other sizes
        return None
    for position, symbol in enumerate(relied.symbols):
        answers = {size: {truth[point] for point in truth if point[position] == size} for size in choices[position]}
        if all(len(each) == 1 for each in answers.values()):
            others = {other: sympy.Integer(size) for other, size in sizes.items() if other != symbol}
            condition = rebuilt(relied.condition, others, evaluate=False)
            return replace(relied, condition=condition, symbols=(symbol,) if condition.free_symbols else ())
    return None


def stated(guards: Sequence[Guard]) -> Iterator[Relied]:
    """Yield the conditions of the guards on which results depend."""
    for each in _of_guards(guards):
        if each.from_one or not _is_generic(each.condition):
            yield each


def _of_guards(guards: Sequence[Guard]) -> Iterator[Relied]:
    for guard in (each for each in guards if not each.about_layout):
        condition = guard.now
        for part in condition.args if isinstance(condition, sympy.And) else (condition,):
            if isinstance(part, sympy.Basic) and part.free_symbols and not free_unbacked_symbols(part):
                yield Relied(part, _symbols(part), guard.place, guard.by_user, guard)


def _nodes(program: Program) -> Iterator[Any]:
    """Yield the nodes of the graph and of its bodies."""
    for each in program.graph_module.modules():
        if isinstance(each, GraphModule):
            yield from each.graph.nodes


def _of_squeezes(program: Program) -> Iterator[Relied]:
    """Yield that a size is not 1, where an axis of that size would vanish if it were."""
    for node in _nodes(program):
        if node.op == "call_function" and node.target in (*SQUEEZES, *OF_ROWS):
            sizes = sizes_of(node.args[0].meta["val"])
            wanted = node.args[1] if len(node.args) > 1 else range(len(sizes))
            if node.target in OF_ROWS:
                wanted = range(1 if len(sizes) == 2 else 0)
            for axis in [wanted] if isinstance(wanted, int) else wanted:
                if sizes and isinstance(sizes[axis], sympy.Expr):
                    condition = sympy.Ne(sizes[axis], 1)
                    yield Relied(condition, _symbols(condition), place_of(node), True, None)


def _of_slices(program: Program) -> Iterator[Relied]:
    """Yield that an axis is long enough, where a slice is taken to have a number of elements: `x[:2]`, `x[-2:]`.

    PyTorch asks nothing where it takes that from the smallest size that it traces.
    """
    for node in _nodes(program):
        if node.op != "call_function" or node.target is not aten.slice.Tensor:
            continue
        given: tuple[Any, ...] = (*node.args[:4], *(0, None, None)[len(node.args) - 1 :])
        x, axis, start, end = given
        size, length = (sizes_of(each.meta["val"])[axis] for each in (x, node))
        if not isinstance(size, sympy.Expr) or size.is_number:
            continue
        bounds = [abs(each) for each in (start, end) if isinstance(each, int) and abs(each) < sys.maxsize]
        if not isinstance(length, int) and _is_length_of_one(length, size, start, end):
            continue
        condition = sympy.Ge(size, max(bounds, default=0))
        if condition.free_symbols and not free_unbacked_symbols(size):
            yield Relied(condition, _symbols(condition), place_of(node), True, None)


def _is_length_of_one(length: Any, size: Any, start: Any, end: Any) -> bool:
    """Return whether a slice has this length also where all sizes are 1, of which PyTorch traces none.

    True also where there is no such axis, as one of `6 // (n // 2)` elements.
    """
    if any(isinstance(each, Node) for each in (start, end)):
        return True
    one = dict.fromkeys(size.free_symbols | length.free_symbols, sympy.S.One)
    try:
        whole, claimed = size.xreplace(one), length.xreplace(one)
    except (ArithmeticError, AssertionError):  # as functions of PyTorch raise them
        return True
    return not whole.is_number or claimed == len(range(int(whole))[start:end])


def _symbols(condition: Any) -> tuple[Symbol, ...]:
    return tuple(sorted(condition.free_symbols, key=str))


def _is_generic(condition: Any) -> bool:
    """Return whether an op only made sure that a size is nothing special, to choose among equal computations."""
    if isinstance(condition, sympy.Ne):
        return True
    if not isinstance(condition, sympy.core.relational.Relational) or isinstance(condition, sympy.Eq):
        return False
    bound = getattr(condition, "lts", None)  # the smaller side of an inequality
    return isinstance(bound, sympy.Integer) and bool(bound <= SMALLEST)
