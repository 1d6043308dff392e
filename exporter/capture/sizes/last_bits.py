"""Whole numbers and comparisons of a float that sizes give, at sizes for which the graph may have others than Python.

A graph computes in 64 bits as Python does, and most functions of floats to the last bit alike. A few have another last
bit now and then, which decides where a float is nearly whole: `int(10 ** math.log10(n))`. And what is above 64 bits
becomes no whole number of a graph. Both are looked for at many sizes, with results of these functions a little above
and below what Python has.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import sympy
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.fx.node import map_arg
from torch.utils._sympy.numbers import int_oo

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.sizes.promises import SIZED
from fxport.fx_passes import cube_root  # noqa: F401  # registers the op
from fxport.fx_passes.graph import place_of
from fxport.fx_passes.sizes import rebuilt, unfolded

aten = torch.ops.aten

COMPARING = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)

DECIDING = frozenset({math.trunc, math.floor, math.ceil, builtins.round, operator.floordiv, operator.mod, *COMPARING})
"""Functions whose result jumps where what they are given crosses a number."""

LAST_BITS, SINGLE = 2.0**-51, 2.0**-22
"""Relative errors: of a formula in double, and of a kernel in single precision."""

AS_PYTHON: Mapping[Any, Callable[..., float]] = {
    aten.log.default: math.log,
    aten.exp.default: math.exp,
    aten.log2.default: math.log2,
    aten.log10.default: math.log10,
    aten.log1p.default: math.log1p,
    aten.expm1.default: math.expm1,
    aten.hypot.default: math.hypot,
    aten.asinh.default: math.asinh,
    aten.acosh.default: math.acosh,
    aten.atanh.default: math.atanh,
    aten.atan2.default: math.atan2,
    aten.erf.default: math.erf,
    aten.erfc.default: math.erfc,
    torch.ops.fxport.cbrt.default: math.cbrt,
}
"""Functions that PyTorch computes with kernels of its own, and Python with the C library."""

IN_DOUBLE = (math.log2, math.log10, math.log1p, math.expm1, math.hypot, math.cbrt)

IN_SINGLE = (math.asinh, math.acosh, math.atanh, math.atan2, math.erf, math.erfc)

UNSURE: Mapping[Any, float] = {
    **{target: LAST_BITS for target, function in AS_PYTHON.items() if function in IN_DOUBLE},
    **{target: SINGLE for target, function in AS_PYTHON.items() if function in IN_SINGLE},
    **dict.fromkeys((torch._sym_tan, torch._sym_sinh, torch._sym_cosh), SINGLE),  # type: ignore[attr-defined]  # the stubs lack them
    **dict.fromkeys((torch._sym_asin, torch._sym_acos, torch._sym_atan), SINGLE),  # type: ignore[attr-defined]
    torch._sym_log2: LAST_BITS,  # type: ignore[attr-defined]
}
"""Functions whose results may differ from Python's where they are not whole, and by how much.

The others are those of the C library in ONNX Runtime as in Python.
"""

INVERSES: Mapping[Any, Callable[[float], float]] = {
    aten.log2.default: lambda x: 2.0**x,
    aten.log10.default: lambda x: 10.0**x,
}
"""Functions that the graph has to the last bit where they are whole, though Python may not, by their inverses."""

LARGE = 1 << 31
"""A factor that may soon bring a product of sizes above 64 bits."""

RANGE = range(-(1 << 63), 1 << 63)
"""The whole numbers that a graph has."""

MOST = 512
"""Sizes from the smallest on that are tried, beside the neighbours of powers."""

SIDE = 24
"""Of each of several sizes, the smallest ones, which are tried with each other."""

POWERS = sorted(
    {base**n + d for base, top in ((2, 21), (3, 13), (5, 9), (10, 7)) for n in range(top) for d in (-1, 0, 1)}
)
"""Sizes near which roots and logarithms are whole."""

Sizes = Mapping[sympy.Symbol, int]

Nudge = Callable[[float, float], float]
"""A result of an unsure function, and its relative error, to another result that it may have."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A number or truth value that sizes alone decide, through floats."""

    node: Node
    before: Sequence[Node]
    """Holds what it is computed of, in order; `node` is the last."""
    given: Mapping[Node, sympy.Basic]
    """The sizes among these."""
    env: ShapeEnv

    @property
    def symbols(self) -> list[sympy.Symbol]:
        return sorted({each for expr in self.given.values() for each in expr.free_symbols}, key=str)  # type: ignore[type-var]

    def fault(self, sizes: Sizes) -> str | None:
        """Return what is wrong at these sizes; None where Python raises as well."""
        nudges = NUDGES if any(node.target in UNSURE or _is_exponential(node) for node in self.before) else ()
        try:
            exact, *others = (self._value(sizes, nudge) for nudge in (None, *nudges))
        except (ArithmeticError, ValueError):
            return None
        if isinstance(exact, int) and exact not in RANGE:
            return "this is beyond the 64 bits that the ONNX model has"
        other = next((each for each in others if each != exact and not (math.isnan(each) and math.isnan(exact))), None)
        return None if other is None else f"Python has {exact}, and the ONNX model, by the last bit, may have {other}"

    def _value(self, sizes: Sizes, nudge: Nudge | None) -> Any:
        values: dict[Node, Any] = {node: int(rebuilt(expr, sizes)) for node, expr in self.given.items()}
        unsure: set[Node] = set()
        for node in self.before:
            if node in self.given:
                continue
            args, kwargs = (map_arg(each, values.__getitem__) for each in (node.args, node.kwargs))
            values[node] = _called(node.target, args, kwargs)
            if not unsure.isdisjoint(node.all_input_nodes):
                unsure.add(node)
            if nudge is not None and (error := _error(node, args)):
                whole = None if node in unsure else _whole(node.target, args, values[node])
                values[node] = nudge(values[node], error) if whole is None else whole
                unsure |= {node} if whole is None else set()
        return values[self.node]


def _error(node: Node, args: Any) -> float:
    """Return by how much the result of a function may differ from Python's, in parts of it; 0 if it does not."""
    return (1 + abs(args[1])) * LAST_BITS if _is_exponential(node) else UNSURE.get(node.target, 0.0)


def _is_exponential(node: Node) -> bool:
    """Return whether a node is a power of Euler's number, which stands for `math.exp`: the number itself is rounded."""
    return node.target is operator.pow and bool(node.args[0] == math.e)


def _whole(target: Any, args: Any, value: Any) -> Any:
    """Return the whole number that the graph has for a function, if it has one."""
    whole = round(float(value))
    if target in INVERSES:
        return torch.full_like(value, whole) if INVERSES[target](float(whole)) == float(args[0]) else None
    return value if whole == value else None


def _called(target: Any, args: Any, kwargs: Any) -> Any:
    """Return what a function gives, of numbers or of tensors that hold one; as Python has it, if it has it."""
    function = AS_PYTHON.get(target)
    if function is None:
        return target(*args, **kwargs)
    return torch.tensor(function(*map(float, args)), dtype=torch.float64)


NUDGES: Sequence[Nudge] = (lambda value, error: value * (1 + error), lambda value, error: value * (1 - error))


def last_bit_guards(exported: ExportedProgram) -> Iterator[Guard]:
    """Yield for each whole number of a float of sizes that the graph has what Python has.

    Raises:
        RefusedError: At sizes between others it may not.
    """
    for gm in (each for each in exported.graph_module.modules() if isinstance(each, GraphModule)):
        for node in gm.graph.nodes:
            if node.target in DECIDING and (decision := _decision(node)) is not None:
                yield from _guards(decision)


def _guards(decision: Decision) -> Iterator[Guard]:
    symbols = decision.symbols
    example = {symbol: int(decision.env.backed_var_to_val.get(symbol, 1)) for symbol in symbols}
    tried = [*_tried(decision, example)]
    wrong = {position: what for position, sizes in enumerate(tried) if (what := decision.fault(sizes))}
    if not wrong:
        return
    (symbol, *others) = symbols
    first = min(tried[position][symbol] for position in wrong)
    if others or first <= example[symbol] or free_unbacked_symbols(symbol):  # sizes as data have no conditions
        position, what = next(iter(wrong.items()))
        at = ", ".join(map(str, tried[position].values()))
        raise RefusedError(
            f"it decides by a float that sizes give: where they are {at}, {what}", place=place_of(decision.node)
        )
    last = max(sizes[symbol] for sizes in tried if sizes[symbol] < first)
    condition = sympy.Le(symbol, last)
    yield Guard(condition, decision.env, place_of(decision.node), by_user=False, counted=True, about_layout=False)


def _tried(decision: Decision, example: Sizes) -> Iterator[Sizes]:
    """Yield sizes within what is known of them: of one many, of several those of the example but for one, and small."""
    found: dict[sympy.Symbol, list[int]] = {}
    for symbol in example:
        bounds = decision.env.var_to_range[symbol]
        low, high = max(int(bounds.lower), 1), math.inf if bounds.upper is int_oo else int(bounds.upper)
        found[symbol] = [n for n in sorted({*range(low, low + MOST), *POWERS, example[symbol]}) if low <= n <= high]
    yield example
    for symbol, sizes in found.items():
        yield from ({**example, symbol: size} for size in sizes)
    if len(found) > 1:
        few = [sizes[:SIDE] for sizes in found.values()]
        yield from (dict(zip(found, sizes, strict=True)) for sizes in islice(product(*few), SIDE**2))


def _decision(node: Node) -> Decision | None:
    """Return what a node decides, if sizes alone give it and a function of floats is among what it is computed of."""
    if not any(isinstance(_meta(each), SymFloat) for each in node.all_input_nodes):
        return None
    given: dict[Node, sympy.Basic] = {}
    before: dict[Node, None] = {}
    left = [node]
    while left:
        each = left.pop()
        before[each] = None
        value = _meta(each)
        if isinstance(value, SymInt) and (each.op == "placeholder" or each.target in OF_TENSORS):
            if free_unbacked_symbols(value) and not (each.args and _is_sized_by_data(each.args[0])):
                return None
            given[each] = unfolded(value.node.expr)
        elif not (_is_number(value) and _is_function(each)):
            return None
        else:
            left.extend(input for input in each.all_input_nodes if input not in before)
    order = {each: place for place, each in enumerate(node.graph.nodes)}
    decision = Decision(node, sorted(before, key=order.__getitem__), given, _meta(node).node.shape_env)
    return decision if given and any(map(_may_differ, before)) else None


def _is_sized_by_data(value: Any) -> bool:
    return isinstance(value, Node) and value.target is SIZED


OF_TENSORS = frozenset({aten.sym_size.int, aten.sym_numel.default})


def _may_differ(node: Node) -> bool:
    is_large = any(isinstance(each, (int, float)) and abs(each) >= LARGE for each in node.args)
    return is_large or node.target is operator.pow or node.target in UNSURE or node.target in AS_PYTHON


def _is_function(node: Node) -> bool:
    """Return whether a node may be computed here: it draws no numbers, writes to nothing and is none of the user's."""
    if isinstance(target := node.target, OpOverload):
        return (
            target.namespace in OWN
            and torch.Tag.nondeterministic_seeded not in target.tags
            and not target._schema.is_mutable
        )
    return node.op == "call_function" and not isinstance(target, HigherOrderOperator)


OWN = ("aten", "prims", "fxport")
"""Namespaces of PyTorch's operators, and of those of this package."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (SymInt, SymFloat, SymBool, int, float)) or (
        isinstance(value, Tensor) and value.dim() == 0
    )


def _meta(node: Node) -> Any:
    return node.meta.get("val")
