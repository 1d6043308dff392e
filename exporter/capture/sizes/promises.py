"""Promises made by names of dimensions: those of one name are one size, and `2*n` is twice the size of `n`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, ValueRangesSLoc
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

import fxport.fx_passes.data_sizes  # noqa: F401  # registers the op
from fxport.exporter.capture.forward import forward_by
from fxport.exporter.capture.sizes.relied import SMALLEST
from fxport.exporter.capture.sizes.shapes import Derived, Request
from fxport.fx_passes.program import InputKind, Program
from fxport.fx_passes.sizes import NamedSize, rebuilt, size_of, sizes_of

SIZED = torch.ops.fxport.sized_by_data.default
"""The op by which only a run tells sizes of inputs."""

UNLIMITED = 2**48
"""No tensor has so many elements along an axis; PyTorch's own bounds are fractions of the largest whole number."""

Range = tuple[int, int | None]
"""The smallest and the largest size; None: any."""

Position = tuple[str, int | None]
"""The path of an input, and an axis of it."""


@dataclass
class Promised:
    """Effects of the dimension names on the symbols of a captured graph."""

    replaced: dict[str, str] = field(default_factory=dict)
    """Symbols, each with the equal one that stands for it."""
    roots: dict[str, sympy.Symbol] = field(default_factory=dict)
    """By the name of a dimension, the symbol from which others are derived."""
    ranges: dict[str, Range] = field(default_factory=dict)
    """Ranges of the roots."""
    derived: set[str] = field(default_factory=set)
    """Symbols for which an expression over a root stands."""


def sized_inputs(program: Program) -> Iterator[tuple[Position, Any]]:
    """Yield ((path of the input, axis), size) for every axis of every tensor that the user feeds, and every number."""
    for entry, node in zip(program.inputs, program.placeholders, strict=True):
        value = node.meta.get("val")
        if entry.kind is not InputKind.USER:
            continue
        if not isinstance(value, torch.Tensor):
            yield (entry.path or entry.name, None), value
            continue
        for axis, size in enumerate(value.shape):
            yield (entry.path or entry.name, axis), size


@contextmanager
def equal_from_the_start(model: torch.nn.Module, requests: Sequence[Request]) -> Iterator[None]:
    """Make dimensions of one name one symbol before the model runs: no question whether they are equal has to be asked.

    Those whose bounds differ stay apart until the model asks.
    """
    named = [each for each in requests if each.name and each.derived is None]

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        traced = None if torch.compiler.is_dynamo_compiling() else get_proxy_mode()
        mode = None if traced is None else detect_fake_mode()
        if mode is not None and mode.shape_env is not None:
            _make_equal(mode.shape_env, named)
        return forward(*args, **kwargs)

    with forward_by(model, call):
        yield


def _make_equal(env: ShapeEnv, named: Sequence[Request]) -> None:
    first: dict[str | None, sympy.Symbol] = {}
    for request in named:
        symbol = env.source_to_var.get(request.source)
        if isinstance(symbol, sympy.Symbol):
            kept = first.setdefault(request.name, symbol)
            known = kept in env.replacements or symbol in env.replacements  # as in a second trace of the same sizes
            if kept != symbol and env.var_to_range[kept] == env.var_to_range[symbol] and not known:
                env._set_replacement(symbol, kept, "dimensions of one name")


def unified(program: Program, requests: Sequence[Request]) -> Promised:
    """Make dimensions to which the user gave one name one symbol, in every shape of the captured graph.

    The name is a promise that they are equal. So is that of a derived one, `2*n`, for the root of it.
    """
    named = {(request.input, request.axis): request for request in requests if request.name}
    sizes = [(named[position], size) for position, size in sized_inputs(program) if position in named]
    first: dict[str | None, torch.SymInt] = {}
    promised = Promised()
    for request, size in sizes:
        if not isinstance(size, torch.SymInt):
            continue
        kept = first.setdefault(request.name, size)
        a, b = size_of(kept), size_of(size)
        if a != b and isinstance(a, sympy.Symbol) and isinstance(b, sympy.Symbol) and kept.node.hint == size.node.hint:
            kept.node.shape_env._set_replacement(b, a, "dimensions of one name")
            promised.replaced[str(b)] = str(a)
    for request, size in sizes:
        if request.derived is not None and isinstance(size_of(size), sympy.Symbol):
            root = size_of(first[request.derived.root]) if request.derived.root in first else None
            _derive(size, request, root, promised)
    for env in {size.node.shape_env for _, size in sized_inputs(program) if isinstance(size, torch.SymInt)}:
        _redefine(env)
    return promised


def _redefine(env: ShapeEnv) -> None:
    """Write into the definition of each named size what the symbols in it were replaced by: `int((h * w) ** 0.5)`."""
    for symbol in [each for each in env.backed_var_to_val if isinstance(each, NamedSize)]:
        before: Any = symbol.definition
        definition = rebuilt(before, {each: env.replace(each) for each in before.free_symbols}, evaluate=False)
        if definition == before:
            continue
        new = NamedSize(symbol.name, definition, **symbol._assumptions_orig)
        for facts in (env.backed_var_to_val, env.var_to_range, env.var_to_range_sloc, env.var_to_sources):
            facts[new] = facts[symbol]  # type: ignore[index, assignment]  # the same of both
        env._set_replacement(symbol, new, "a named size over sizes that are equal")


def _derive(size: torch.SymInt, request: Request, root: Any, promised: Promised) -> None:
    """Write the expression over its root in the place of a size; `root` is that of the dimension of this name."""
    derived, env, symbol = request.derived, size.node.shape_env, size_of(size)
    assert derived is not None
    if root is None:
        root = promised.roots.get(derived.root) or _new_root(derived, env)
    if not isinstance(root, sympy.Symbol) or root == symbol:
        return
    bounds = env.var_to_range[symbol]
    if bounds.lower == SMALLEST:  # that of every size that PyTorch traces: no bound that the root could have of it
        env.var_to_range[symbol] = ValueRanges(1, bounds.upper)
    env._set_replacement(symbol, derived.factor * root + derived.offset, "a derived dimension")
    promised.roots[derived.root] = root
    promised.ranges[str(root)] = _range(env.var_to_range[root])
    promised.derived.add(str(symbol))


def _new_root(derived: Derived, env: ShapeEnv) -> sympy.Symbol:
    """Make a symbol for a size that no input has, only multiples of it."""
    symbol = sympy.Symbol(f"s_{derived.root}", integer=True, positive=True)
    low, high = derived.bounds
    here = env._get_sloc()
    env.backed_var_to_val[symbol] = sympy.Integer(derived.size)
    env.var_to_range[symbol] = ValueRanges(max(low, 1), int_oo if high is None else high)
    env.var_to_range_sloc[symbol] = ValueRangesSLoc(here, here)
    env.var_to_sources[symbol] = []
    return symbol


def dim_names(program: Program, requests: Sequence[Request], promised: Promised) -> dict[str, str]:
    """Map each size symbol to the user's name of the dimension, or to "<input>.<axis>" where none was given.

    Where PyTorch found two differently named dimensions to be the same size, the first name stands.
    """
    named = {(request.input, request.axis): request.name for request in requests if request.name}
    chosen: dict[str, str] = {}
    fallback: dict[str, str] = {}
    for position, size in sized_inputs(program):
        symbol = size_of(size)
        if isinstance(symbol, sympy.Symbol):
            place = [str(each) for each in position if each is not None]
            fallback.setdefault(str(symbol), ".".join(place))
            if position in named:
                chosen.setdefault(str(symbol), named[position])
    names = fallback | {str(symbol): name for name, symbol in promised.roots.items()} | chosen
    for node in program.graph_module.graph.find_nodes(op="call_function", target=SIZED):
        for size, as_data in zip(sizes_of(node.args[0].meta["val"]), sizes_of(node.meta["val"]), strict=True):
            if isinstance(as_data, sympy.Symbol) and str(size) in names:
                names.setdefault(str(as_data), names[str(size)])
    return names


def ranges_of(exported: ExportedProgram, promised: Promised) -> dict[str, Range]:
    """Map each size symbol to the smallest and the largest size for which the captured graph holds."""
    found: dict[str, Range] = {}
    for symbol, bounds in exported.range_constraints.items():
        if str(symbol) not in promised.derived:
            name = promised.replaced.get(str(symbol), str(symbol))
            found[name] = _narrower(found.get(name, (0, None)), _range(bounds))
    for name, bounds in promised.ranges.items():
        found[name] = _narrower(found.get(name, (0, None)), bounds)
    return found


def _range(bounds: Any) -> Range:
    lower = int(bounds.lower) if bounds.lower > -(2**62) else 0
    return lower, int(bounds.upper) if bounds.upper < UNLIMITED else None


def _narrower(one: Range, other: Range) -> Range:
    highest = [each for each in (one[1], other[1]) if each is not None]
    return max(one[0], other[0]), min(highest, default=None)
