"""The sizes at which the tensors of a captured graph share memory as they do in it, as far as writes can tell.

Where another size makes a view of what was captured as a copy, or the reverse, and one of the two is written to before
the other is read, the graph is no model for that size. It becomes a condition, as a question of Python's does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols
from torch.utils import _pytree as pytree

from fxport.diagnostics import Place
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.regions import with_open_regions
from fxport.exporter.capture.sizes.conditions import FAR, few_sizes, grid, sizes_to_try, test_of
from fxport.exporter.capture.sizes.memory import Eager, Event, Memory, Point, memory_of, symbols_of
from fxport.exporter.capture.sizes.relied import SMALLEST, stated
from fxport.fx_passes.aliases import expand_aliases
from fxport.fx_passes.graph import bodies, place_of
from fxport.fx_passes.sizes import size_of, unfolded

HINT = 3
"""Example value of a size that depends on data."""

EITHER = "it writes to what is a view at some sizes and a copy at others, which no condition on sizes tells apart"
CLONE = "Take a copy of its own before the write, with `.clone()`; or write to the tensor before it is reshaped."

Values = Mapping[Node, Any]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A write, and a node whose memory matters after it."""

    write: Event
    read: Node


def memory_guards(exported: ExportedProgram, guards: Sequence[Guard]) -> Iterator[Guard]:
    """Find the conditions on sizes under which writes in a graph reach what they reach in eager PyTorch.

    `guards` are those that the capture relies on already. Raises RefusedError where no condition says it.
    """
    gm = with_open_regions(exported.graph_module)
    expand_aliases(gm)
    yield from _guards_of(gm, guards)


def _guards_of(gm: GraphModule, guards: Sequence[Guard]) -> Iterator[Guard]:
    for _, body in bodies(gm):
        yield from _guards_of(body, guards)
    memory = Memory(gm)
    pairs = list(_pairs(memory)) if memory.varying else []
    varying = [node for node in memory.varying if any(_is_across(node, pair, memory) for pair in pairs)]
    if not varying:
        return
    env = _env(varying)
    groups = {memory.groups[node] for node in varying}
    pairs = [pair for pair in pairs if memory.groups[pair.read] in groups]
    nodes = [node for node in memory.nodes if memory.groups[node] in groups]
    given = [each for node in nodes if node in memory.source for each in node.all_input_nodes]  # indices, too
    symbols = symbols_of([*nodes, *given])
    eager = Eager(memory, varying, symbols)
    known = [each for each in stated([guard for guard in guards if guard.env is env]) if {*each.symbols} <= {*symbols}]
    tests = [test_of(each.condition, symbols) for each in known]
    tried, apart = set[Point](), dict[Point, Place | None]()
    for point in _points(symbols, _named(eager.nodes), env):
        values = eager.at(point) if all(test(*point) for test in tests) else None
        if values is None:
            continue
        tried.add(point)
        differs = next((pair for pair in pairs if _differs(pair, memory, values)), None)
        if differs is not None:
            apart[point] = place_of(differs.write.by)
    if apart:
        yield from _told(apart, tried - apart.keys(), symbols, _equations(memory, eager.nodes), env)


def _pairs(memory: Memory) -> Iterator[_Pair]:
    """Each write with the nodes that are read after it, or what these are made of that was there before."""
    reads: dict[Node, list[Event]] = {}
    for event in memory.reads():
        reads.setdefault(memory.groups[event.node], []).append(event)
    found = set[tuple[Node, Node, int]]()
    for write in memory.writes:
        for read in reads.get(memory.groups[write.node], ()):
            if read.at < write.at:
                continue
            if read.by is write.by and (read.node is write.node or torch.Tag.pointwise in _tags(write.by)):
                continue  # what it writes to, and what it reads at the same place before it writes there
            node = memory.before(read.node, write.at)
            if (write.node, node, write.at) not in found:
                found.add((write.node, node, write.at))
                yield _Pair(write, node)


def _is_across(node: Node, pair: _Pair, memory: Memory) -> bool:
    """Tell whether one of the write and the read looks at what a node gives, and the other does not."""
    return memory.descends(pair.write.node, node) != memory.descends(pair.read, node)


def _tags(node: Node) -> Sequence[Any]:
    return getattr(node.target, "tags", ())


def _differs(pair: _Pair, memory: Memory, values: Values) -> bool:
    """Tell whether the write reaches what is read in the graph, and not at these sizes; or the other way round."""
    written, read = pair.write.node, pair.read
    together = memory.captured(written) is memory.captured(read)
    return together != (memory_of(values[written]) == memory_of(values[read]))


def _named(nodes: Sequence[Node]) -> list[int]:
    """List the numbers in the sizes of tensors, and their neighbours: a slice may be as long as its axis there."""
    sizes = [_plain(size) for node in nodes for size in _sizes(node)]
    numbers = {abs(int(each)) for size in sizes for each in size.atoms(sympy.Integer)}
    return sorted({number + d for number in numbers for d in (-1, 0, 1)})


def _points(symbols: Sequence[sympy.Symbol], named: Sequence[int], env: ShapeEnv) -> Iterator[Point]:
    """Sizes to try: of each symbol many, those of the others as in the example; and of each two some together."""
    example = [int(env.backed_var_to_val.get(symbol, HINT)) for symbol in symbols]
    bounds = [env.var_to_range.get(symbol) for symbol in symbols]
    limits = [
        (
            int(each.lower) if each is not None and each.lower > SMALLEST else 1,
            int(each.upper) if each is not None and each.upper.is_Integer else None,
        )
        for each in bounds
    ]

    def with_sizes(sizes: Mapping[int, int]) -> Point:
        return tuple(sizes.get(place, size) for place, size in enumerate(example))

    yield tuple(example)
    for place, size in enumerate(example):
        near, (low, high) = sizes_to_try(*limits[place], size), limits[place]
        far = (each for each in (*named, *FAR) if each > near[-1] and each >= low and (high is None or each <= high))
        yield from (with_sizes({place: each}) for each in (*near, *far))
    for one, two in combinations(range(len(symbols)), 2):
        choices = [few_sizes(*limits[place], example[place], 12) for place in (one, two)]
        yield from (with_sizes({one: first, two: second}) for first, second in grid(choices))


def _equations(memory: Memory, nodes: Sequence[Node]) -> list[Any]:
    """List what may decide how a tensor lies in memory: a size of 1, equal sizes, axes that follow each other."""
    found: dict[Any, None] = {}
    for node in nodes:
        around = [_plain(size) for each in (memory.source.get(node, node), node) for size in _sizes(each)]
        found.update(dict.fromkeys(sympy.Eq(one, two) for one, two in combinations([sympy.S.One, *around], 2)))
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor):
                sizes, strides = ([_plain(each) for each in part] for part in (value.shape, value.stride()))
                steps = [size * stride for size, stride in zip(sizes, strides, strict=True)]
                found.update(dict.fromkeys(sympy.Eq(outer, step) for outer in strides for step in steps))
    return [each for each in found if isinstance(each, sympy.Eq)]


def _sizes(node: Node) -> Iterator[Any]:
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            yield from value.shape


def _plain(size: Any) -> Any:
    return unfolded(sympy.sympify(size_of(size)))


def _told(
    apart: Mapping[Point, Place | None],
    alike: set[Point],
    symbols: Sequence[sympy.Symbol],
    equations: Sequence[Any],
    env: ShapeEnv,
) -> Iterator[Guard]:
    """Put the sizes at which memory is shared otherwise into conditions: equations that hold at none of the others."""
    place = next(iter(apart.values()))
    left, chosen = set(apart), list[sympy.Basic]()
    for equation in equations:
        test = test_of(equation, symbols)
        holds = {point for point in left if test(*point)}
        if holds and not any(test(*point) for point in alike):
            chosen.append(sympy.Not(equation))
            left -= holds
    if left:
        chosen = [each for each in equations if _tells(each, symbols, apart, alike)][:1]
    if not chosen or any(free_unbacked_symbols(each) for each in chosen):  # type: ignore[arg-type]  # symbols
        raise RefusedError(EITHER, place=place, cure=CLONE)
    yield from (Guard(each, env, place, by_user=True, counted=False, about_layout=False) for each in chosen)


def _tells(equation: Any, symbols: Sequence[sympy.Symbol], apart: Mapping[Point, Any], alike: set[Point]) -> bool:
    """Tell whether an equation holds at all sizes that are like the captured ones, and at no others."""
    test = test_of(equation, symbols)
    return all(test(*point) for point in alike) and not any(test(*point) for point in apart)


def _env(nodes: Sequence[Node]) -> ShapeEnv:
    sizes = (size for node in nodes for size in node.args[0].meta["val"].shape)  # type: ignore[union-attr]  # tensors
    strides = (step for node in nodes for step in node.args[0].meta["val"].stride())  # type: ignore[union-attr]
    return next(each.node.shape_env for each in (*sizes, *strides) if isinstance(each, torch.SymInt))
