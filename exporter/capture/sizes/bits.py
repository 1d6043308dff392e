"""Whole numbers of the data that may need more bits than a graph has for one.

Python's whole numbers have no bound, and those of a graph have 64 bits. What data give is taken to be a million at
most, so that products of three such numbers are no matter, and a power or a product in each turn of a loop is. Sizes
have conditions that 64 bits hold their powers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import SymInt
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.functions import PowByNatural

from fxport.diagnostics import Log, rules
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.guard import Guard
from fxport.fx_passes.graph import bodies, place_of
from fxport.fx_passes.program import Program
from fxport.fx_passes.sizes import unfolded

aten, higher_order = torch.ops.aten, torch.ops.higher_order

MOST = 63.5
"""The bits that a graph has, but for the sign: one half is nothing."""

END = 1 << 63
"""The first whole number that 64 bits do not hold."""

BEYOND = "it computes with a size and a whole number beyond 64 bits, which the ONNX model has no form for"

BEYOND_AT_EXAMPLE = "it computes a whole number beyond 64 bits for your example, which the ONNX model has no form for"

LARGE = 1 << 31
"""A number from which on a product with a size may soon be too large."""

GROWING = (operator.pow, operator.mul, operator.add, operator.sub)
"""Operators whose results need more bits than what they are given."""

OF_DATA = 20.0
"""The bits of a number that data give."""

TURNS = 8
"""The turns of a loop after which a sum still gets half a bit more in each only where it is one of what grows."""

Bits = dict[Node, float]
"""The bits of nodes that are whole numbers, or tensors that hold one."""

Found = dict[Node, float]
"""The nodes that may need more bits than there are, and how many; `math.inf` where each turn of a loop adds some."""


def report_numbers_beyond(program: Program, log: Log) -> None:
    """Report FXP1037 at each of `numbers_beyond`."""
    for node, bits in numbers_beyond(program).items():
        log.report(rules.NUMBER_TOO_LARGE, at=place_of(node), growth=_in_words(bits))


def power_guards(exported: ExportedProgram) -> Iterator[Guard]:
    """Yield for each power of a size, and each sum or product with one or with a large number, that 64 bits hold it.

    Raises:
        RefusedError: A number that 64 bits do not hold is added to a size, or multiplied with one.
    """
    for gm in (each for each in exported.graph_module.modules() if isinstance(each, GraphModule)):
        for node in gm.graph.nodes:
            value = node.meta.get("val")
            if node.target not in GROWING or not isinstance(value, SymInt) or _is_of_data(node):
                continue
            if any(isinstance(each, int) and abs(each) >= END for each in node.args):
                raise RefusedError(BEYOND, place=place_of(node))
            expr = unfolded(value.node.expr)
            if expr.has(sympy.Pow, PowByNatural) or any(abs(each) >= LARGE for each in expr.atoms(sympy.Integer)):
                example = value.node.hint
                if isinstance(example, int) and not -END < example < END:
                    raise RefusedError(BEYOND_AT_EXAMPLE, place=place_of(node))
                for fits in (sympy.Lt(expr, END), sympy.Gt(expr, -END)):
                    yield Guard(fits, value.node.shape_env, place_of(node), True, False, False)


def numbers_beyond(program: Program) -> Found:
    """Return the sums, products and powers of whole numbers of the data that may need more bits than there are."""
    found: Found = {}
    _follow(program.graph_module, [], found)
    return found


def _follow(gm: GraphModule, given: Sequence[float], found: Found) -> list[float]:
    """Return the bits of the results of a graph whose first inputs have the given ones."""
    inner, run = dict(bodies(gm)), set[str]()
    *nodes, output = gm.graph.nodes
    bits: Bits = dict(zip((each for each in nodes if each.op == "placeholder"), given, strict=False))
    results: dict[Node, list[float]] = {}
    for node in nodes:
        if node.target in LOOPS:
            turn, begin = node.args[LOOPS[node.target]].target, node.args[LOOPS[node.target] + 1]  # type: ignore[union-attr]  # by its schema
            results[node] = _after_turns(inner[turn], [_bits_of(each, bits) for each in begin], found)  # type: ignore[index, union-attr]
            run.add(turn)  # type: ignore[arg-type]
        elif node.target is higher_order.cond:
            arms, read = [each.target for each in node.args[1:3]], [_bits_of(each, bits) for each in node.args[3]]  # type: ignore[union-attr]  # by its schema
            results[node] = [*map(max, *(_follow(inner[arm], read, found) for arm in arms))]  # type: ignore[index]
            run.update(arms)  # type: ignore[arg-type]
        elif node.target is operator.getitem and node.args[0] in results:
            bits[node] = dict(enumerate(results[node.args[0]])).get(node.args[1], OF_DATA)  # type: ignore[index, arg-type]
        elif node.target in KEPT:
            dtype = getattr(getattr(node.args[0], "meta", {}).get("val"), "dtype", None)
            bits[node] = min(_bits_of(node.args[0], bits), OF_DTYPE.get(dtype, math.inf))
        elif node.target in OPERATORS and _is_of_data(node):
            operands = [_bits_of(each, bits) for each in node.args]
            bits[node] = OPERATORS[node.target](*operands, *node.args)
            if bits[node] > MOST >= max(operands) and node.users:
                found[node] = bits[node]
    for name in inner.keys() - run:
        _follow(inner[name], [], found)
    returned = output.args[0]
    return [_bits_of(each, bits) for each in returned] if isinstance(returned, (list, tuple)) else []


def _after_turns(turn: GraphModule, begin: Sequence[float], found: Found) -> list[float]:
    """Return the bits of what a loop hands on in the end; what grows in each turn has all that there are."""
    before = after = list(begin)
    for _ in range(TURNS):
        before, after = after, _follow(turn, after, {})[: len(begin)]
    known = [MOST if now > then + 0.5 else now for then, now in zip(before, after, strict=False)]
    first: Found = {}
    grown: Found = {}
    _follow(turn, begin, first)
    results = _follow(turn, known, grown)
    found.update({node: bits if first.get(node) == bits else math.inf for node, bits in grown.items()})
    return [min(each, MOST) for each in results]


def _in_words(bits: float) -> str:
    if bits == math.inf:
        return "Each iteration of a loop makes it larger"
    return f"If the data give numbers up to a million, these are {round(bits)} bits"


def _bits_of(value: Any, bits: Bits) -> float:
    if isinstance(value, Node):
        return bits.get(value, OF_DATA)
    return math.log2(abs(value) or 1) if isinstance(value, int) else OF_DATA


def _is_of_data(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, SymInt) and bool(free_unbacked_symbols(value))


def _sum(a: float, b: float, *_: Any) -> float:
    return max(a, b) + math.log2(1 + 2.0 ** -abs(a - b))


def _power(base: float, exponent: float, _base: Any, times: Any) -> float:
    return base * (times if isinstance(times, int) else 2.0 ** min(exponent, OF_DATA))


LOOPS: Mapping[Any, int] = {higher_order.scan: 0, higher_order.while_loop: 1}
"""Loops, and where among their arguments the turn is, in front of what it begins with."""

KEPT = frozenset({aten.item.default, aten._local_scalar_dense.default, aten.scalar_tensor.default, aten.clone.default})
"""Operators whose result is the number that they are given."""

OF_DTYPE: Mapping[Any, float] = {torch.bool: 1, torch.uint8: 8, torch.int8: 7, torch.int16: 15}
"""The bits that a number of these types has at most."""

OPERATORS: Mapping[Any, Callable[..., float]] = {
    operator.add: _sum,
    operator.sub: _sum,
    operator.mul: lambda a, b, *_: a + b,
    operator.pow: _power,
    operator.floordiv: lambda a, b, _, divisor: a - b if isinstance(divisor, int) else a,
    operator.mod: lambda a, b, *_: b,
    operator.neg: lambda a, *_: a,
    torch.sym_max: lambda a, b, *_: max(a, b),
    torch.sym_min: lambda a, b, *_: min(a, b),
    torch.sym_ite: lambda test, a, b, *_: max(a, b),
}
"""The bits of a result, given those of its operands, and these."""
