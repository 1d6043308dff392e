"""The stages of an export one by one, on values: what the graph gives after each, and the ONNX model before each.

Asked only when a validation has failed, to find the stage that brought the error.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass
from torch.fx import Node
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log, Place
from fxport.exporter.capture import capture
from fxport.exporter.capture.arguments.caches import register_caches
from fxport.exporter.capture.arguments.keywords import in_order, named_keywords
from fxport.exporter.capture.arguments.padded import call_padded
from fxport.exporter.capture.eager import restored
from fxport.exporter.capture.patches.attention import masks_unread
from fxport.exporter.capture.wrappers import unwrapped
from fxport.exporter.lowering.ir_passes import pipeline as ir_pipeline
from fxport.exporter.lowering.ir_passes import run_ir_passes
from fxport.exporter.lowering.lower import lower
from fxport.exporter.lowering.lower.registry import extend
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.exporter.pipeline.options import Options
from fxport.exporter.validation.eager_values import first_foreign
from fxport.exporter.validation.intermediates import Intermediates, NodeFailed, key_of
from fxport.exporter.validation.runs import changed_by, refed
from fxport.exporter.weights.arrays import Arrays
from fxport.fx_passes import Program, normalize
from fxport.fx_passes.graph import place_of

COMPARED = 64 << 20
"""Bytes of values of the graph before a pass that are held at once, to be compared with those after it."""

Named = Mapping[str, np.ndarray]
Differs = Callable[[Named, Named, Named | None], bool]
"""Function of (want, got, want in float64), arrays by name: True if any that both have differ by more than rounding.

Without the third, the float64 reference of the model's outputs is taken.
"""


@dataclass(frozen=True)
class Call:
    """Exported call: a model with its arguments."""

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    dynamic_shapes: Any


@dataclass(frozen=True, slots=True)
class FxStage:
    """A stage in which the graph came to give something else: "capture", or "pass <name>"; the places where."""

    name: str
    places: tuple[Place, ...] = ()


class _Found(Exception):
    """Ends the passes once the one that was looked for has run."""


def guilty_fx_stage(call: Call, options: Options, inputs: Named, want: Arrays, differs: Differs) -> FxStage | None:
    """The first stage after which the graph, run by PyTorch, gives other outputs than `want`; None if none does.

    The model is captured again, because passes change a graph in place.
    """
    log = Log()
    register_caches()
    call = replace(call, model=unwrapped(call.model))
    with named_keywords(call.model, call.kwargs), masks_unread():
        program = capture(call.model, call.args, call.kwargs, call.dynamic_shapes, options, log)
    if _is_wrong(program, inputs, want, differs):
        return FxStage("capture", tuple(_left_at(program, call, inputs)))
    before = [copied(program)]
    found: list[FxStage] = []

    def observe(name: str, now: Program) -> None:
        if _is_wrong(now, inputs, want, differs):
            places = changed_places(before[0], now, inputs, differs)
            found.append(FxStage("decomposition" if name == "decompose" else f"pass {name}", tuple(places)))
            raise _Found
        before[0] = copied(now)

    try:
        normalize(program, extend(LOWERINGS, options.lowerings), log, observe=observe)
    except _Found:
        return found[0]
    return None


def _left_at(program: Program, call: Call, inputs: Named) -> Iterator[Place]:
    """Yield the place of the first node of the captured graph whose value the model never computes."""
    module = call.model
    args, kwargs = refed(module, (call.args, in_order(module, call.kwargs)), program, inputs)
    with restored(module, changed_by(program)):
        node = first_foreign(program, inputs, lambda: call_padded(module, args, kwargs))
    place = place_of(node) if node is not None else None
    if place is not None:
        yield place


def _is_wrong(program: Program, inputs: Named, want: Arrays, differs: Differs) -> bool:
    """Return True if the graph gives other values, or none because PyTorch cannot run it."""
    try:
        return differs(want, Intermediates(program, inputs).outputs(), None)
    except NodeFailed:
        return True


def lowered(program: Program, options: Options, passes: int | None = None) -> ir.Model:
    """The model of a normalized program after that many of the ONNX passes, all by default.

    The casts that ONNX Runtime needs are always there.
    """
    log = Log()
    model = lower(program, extend(LOWERINGS, options.lowerings), options, log)
    tidy = RemoveUnusedNodesPass()  # a pass may leave nodes behind that nothing uses and nothing could run
    return run_ir_passes(model, (*ir_passes_of(options)[:passes], tidy), log)


def ir_passes_of(options: Options) -> Sequence[ir.passes.PassBase]:
    """The passes of an export on the ONNX model, in order."""
    return ir_pipeline.passes_of(options)


def copied(program: Program) -> Program:
    """Return the program with a graph of its own."""
    return replace(program, graph_module=copy.deepcopy(program.graph_module))


def changed_places(before: Program, now: Program, inputs: Named, differs: Differs) -> Iterator[Place]:
    """The places of what a pass did before the first value, of those in both graphs, that is not the same.

    First comes what that value is made of now and was not before: the operation that is gone, or what was written in
    its place; the other places are those of all that the pass wrote before it.
    """
    replaced: list[Node] = []
    try:
        first = _first_changed(before, now, inputs, differs)
        reader = first if first is not None else now.graph_module.graph.output_node()
        replaced += _replaced(reader, before, now, inputs, differs)
    except NodeFailed as failed:
        first = failed.node
    known = {node.name: _shape_of(node) for node in before.graph_module.graph.nodes}
    own = [
        node
        for node in reversed(list(now.graph_module.graph.nodes))
        if node.op == "call_function" and known.get(node.name) != _shape_of(node)
        if first is None or node is first or _leads_to(node, first)
    ]
    nodes = dict.fromkeys((*replaced, *own))
    yield from (place for node in nodes if (place := place_of(node)) is not None)


def _replaced(reader: Node, before: Program, now: Program, inputs: Named, differs: Differs) -> Iterator[Node]:
    """Yield what stood, before a pass, for the operands of a node that have other values now, or what stands for them
    if the pass wrote that."""
    names = [{node.name: node for node in each.graph_module.graph.nodes} for each in (before, now)]
    was = names[0].get(reader.name)
    if was is None or was.target is not reader.target:
        return
    pairs = list(zip(_operands(was), _operands(reader), strict=False))
    moved = [(old, new) for old, new in pairs if old.name != new.name and old.op == new.op == "call_function"]
    held = Intermediates(before, inputs).values([key_of(old) for old, _ in moved])
    made = Intermediates(now, inputs).values([key_of(new) for _, new in moved])
    for old, new in moved:
        want, got = held.plain.get(key_of(old)), made.plain.get(key_of(new))
        exact = {"": held.exact[key_of(old)]} if key_of(old) in held.exact else {}
        if want is not None and got is not None and differs({"": want}, {"": got}, exact):
            if new.name not in names[0]:
                yield new
            elif old.name not in names[1]:
                yield old


def _operands(node: Node) -> list[Node]:
    """The nodes among a node's arguments, each as often as it stands there."""
    return [each for each in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(each, Node)]


def _first_changed(before: Program, now: Program, inputs: Named, differs: Differs) -> Node | None:
    old, new = Intermediates(before, inputs), Intermediates(now, inputs)
    sizes = old.sizes()
    common = [name for name in new.sizes() if name in sizes]
    nodes = {node.name: node for node in now.graph_module.graph.nodes}
    for batch in _batches(common, sizes):
        before_it, got = old.values(batch), new.values(batch).plain
        want, exact = before_it.plain, before_it.exact
        for name in batch:
            if differs({name: want[name]}, {name: got[name]}, exact):
                return nodes[name.rpartition(".")[0] if name not in nodes else name]
    return None


def _batches(names: Sequence[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch, room = [], COMPARED
    for name in names:
        if batch and sizes[name] > room:
            yield batch
            batch, room = [], COMPARED
        batch.append(name)
        room -= sizes[name]
    if batch:
        yield batch


def _shape_of(node: Node) -> tuple[str, str]:
    """Return the form of a node, which differs after a pass that has changed it."""
    return str(node.target), str((node.args, node.kwargs))


def _leads_to(node: Node, target: Node) -> bool:
    pending, seen = [node], {node}
    while pending:
        for user in pending.pop().users:
            if user is target:
                return True
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return False
