"""The numbers at which a captured graph decides: bounds, thresholds, ids of padding, and edges of intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch.fx import GraphModule, Node

from fxport.fx_passes.program import InputKind, Program

MOST_NUMBERS = 32
"""Numbers of one graph that are tried; a network repeats its few."""

MOST_ELEMENTS = 16
"""Elements of a constant up to which they are edges or the like, and no weights."""

LARGEST_ODD = 255
"""Odd part of a number up to which three times its half fits into any type."""

PADDING = frozenset({"ignore_index", "padding_idx"})
"""Arguments that are numbers of an input, though their types say that they are sizes."""

COMPARISONS = frozenset({"aten::eq", "aten::ne", "aten::lt", "aten::le", "aten::gt", "aten::ge"})


@dataclass(frozen=True, slots=True)
class GraphNumbers:
    """Numbers of a graph, each once.

    `known` are all that operators take as numbers, not as sizes or places, and those of small constants. `ties` are
    values at a tie of rounding when they are divided by one of these, or multiplied by it. `compared` are those of
    comparisons and of padding: an input may hold them besides what it usually holds.
    """

    known: tuple[float, ...]
    ties: tuple[float, ...]
    compared: tuple[float, ...]


def numbers_of(program: Program) -> GraphNumbers:
    """The numbers of a captured graph and of its bodies."""
    modules = (module for module in program.graph_module.modules() if isinstance(module, GraphModule))
    targets = [
        node for module in modules for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)
    ]
    compared = _some(value for node in targets for name, value in _of_node(node).items() if _compares(node, name))
    every = _some([*(value for node in targets for value in _of_node(node).values()), *_of_constants(program)])
    ties = [tie for number in every if number for tie in (0.5 * number, 1.5 * number, *_factors_of_ties(number))]
    return GraphNumbers(every, tuple(dict.fromkeys(filter(math.isfinite, ties))), compared)


def _factors_of_ties(number: float) -> Iterator[float]:
    """Yield what makes half of an odd number when it is multiplied by this one: without a rounding, where there is such
    a factor, as a product that is a tie by its rounding alone is none in float64."""
    numerator, _ = abs(number).as_integer_ratio()
    odd = numerator // (numerator & -numerator)
    step = 0.5 * min(odd, LARGEST_ODD) / abs(number)  # a power of 2, or infinite beside the least numbers
    yield from (each * step for each in (1, -1, 3, -3)) if odd <= LARGEST_ODD else (0.5 / number, 1.5 / number)


def _some(numbers: Iterable[float]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(number for number in numbers if math.isfinite(number)))[:MOST_NUMBERS]


def _of_node(node: Node) -> Mapping[str, float]:
    """The numbers that an operator is given, by the names of its arguments; of padding also those by default."""
    found: dict[str, float] = {}
    assert isinstance(node.target, torch._ops.OpOverload)
    for place, argument in enumerate(node.target._schema.arguments):
        given = node.kwargs.get(argument.name, argument.default_value if argument.name in PADDING else None)
        value = node.args[place] if place < len(node.args) else given
        if isinstance(value, (int, float)) and (_takes_values(argument.type) or argument.name in PADDING):
            found[argument.name] = float(value)
    return found


def _compares(node: Node, argument: str) -> bool:
    assert isinstance(node.target, torch._ops.OpOverload)
    return argument in PADDING or node.target._schema.name in COMPARISONS


def _takes_values(kind: torch.JitType) -> bool:
    """Return True for the types of scalars and tensors: their numbers are values, those of others sizes and places."""
    element = kind.getElementType() if isinstance(kind, torch.OptionalType) else kind
    return isinstance(element, (torch.NumberType, torch.TensorType))


def _of_constants(program: Program) -> Iterator[float]:
    constants = [entry.target for entry in program.inputs if entry.kind is InputKind.CONSTANT]
    for name in constants:
        tensor = program.tensors[name or ""]
        if tensor.numel() <= MOST_ELEMENTS and not tensor.is_complex() and tensor.device.type != "meta":
            yield from map(float, tensor.detach().reshape(-1).tolist())
