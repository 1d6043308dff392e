"""Eager PyTorch's values at every node of a captured graph, also in float64: the references of a bisection."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fxport.exporter.capture.float64 import wide_types, widened
from fxport.exporter.capture.own_limits import with_epsilon
from fxport.exporter.capture.patches.attention import no_fast_path
from fxport.exporter.validation.equals import EQUALS, OWN
from fxport.exporter.weights.arrays import Arrays, as_array, as_value
from fxport.fx_passes.graph import ORIGIN
from fxport.fx_passes.program import OutputKind, Program

Note = Callable[[Node, Any, Any], None]
"""Called with a node, its result, and that in float64 where there is one."""


@dataclass
class Values:
    """Results of nodes by their FX names, "split.1" being the second one of `split`.

    `exact` holds them in float64: of a run in float64 throughout, or, apart, of a node on eager's own operands.
    """

    plain: Arrays = field(default_factory=dict)
    exact: Arrays = field(default_factory=dict)


class NodeFailed(Exception):
    """A node that PyTorch could not run; the cause is what it raised."""

    def __init__(self, node: Node, error: Exception) -> None:
        super().__init__(f"{node.name}: {type(error).__name__}: {error}")
        self.node = node


class Lost(Exception):
    """A value that could not be computed in float64, and so nothing that depends on it."""


class Intermediates:
    """Runs a captured graph node by node on one set of inputs, and keeps only the results that are asked for.

    `inputs` are by ONNX names, as `reference.Case` has them. Every question is a run of the graph, so that memory is
    bounded by what is asked for and what is alive. `equals` is a key of `EQUALS`: which of equal elements is taken.
    """

    def __init__(self, program: Program, inputs: Mapping[str, np.ndarray], *, equals: str = OWN) -> None:
        self.program = program
        self._equals = EQUALS[equals]
        self._inputs = inputs
        self._last_use = _last_uses(program.graph_module)

    def sizes(self) -> dict[str, int]:
        """The bytes of the result of every node, in the graph's order."""
        found: dict[str, int] = {}

        def note(node: Node, plain: Any, _exact: Any) -> None:
            for key, value in keyed(node, plain):
                found[key] = value.numel() * value.element_size()

        self._run(note, None)
        return found

    def operators(self) -> dict[str, str]:
        """The ATen op that each node came from, as the user's model has it."""
        nodes = (node for node in self.program.graph_module.graph.nodes if node.op == "call_function")
        return {node.name: str(node.meta.get(ORIGIN, node.target)) for node in nodes}

    def values(self, wanted: Collection[str], known: Collection[str] | None = None) -> Values:
        """The results of those names. `known` are the results at which the run in float64 starts anew, from eager's
        value; without it, it runs through from the inputs."""
        found, names = Values(), frozenset(wanted)

        def note(node: Node, plain: Any, exact: Any) -> None:
            exacts = dict(keyed(node, exact)) if exact is not None else {}
            for key, value in keyed(node, plain):
                if key in names:
                    found.plain[key] = as_array(value)
                    if key in exacts and exacts[key].shape == value.shape:
                        found.exact[key] = as_array(exacts[key])

        self._run(note, frozenset(known) if known is not None else frozenset(), wide=True)
        return found

    def watch(self, note: Note) -> None:
        """Runs the graph; `note` sees the result of every call. Raises NodeFailed."""
        self._run(note, None)

    def results(self) -> tuple[str, ...]:
        """The names of the graph's results, in the order of the model's outputs; empty for those that no node made."""
        results = self.program.graph_module.graph.output_node().args[0]
        assert isinstance(results, (tuple, list))
        pairs = zip(self.program.outputs, results, strict=True)
        made = [result for entry, result in pairs if entry.kind is not OutputKind.LITERAL and result is not None]
        return tuple(key_of(each) if isinstance(each, Node) else "" for each in made)

    def sources(self, nodes: Collection[Node]) -> dict[Node, Any]:
        """The values of inputs, weights and attributes among these nodes."""
        gm, placed = self.program.graph_module, self._placed()
        held = {node: operator.attrgetter(str(node.target))(gm) for node in nodes if node.op == "get_attr"}
        return held | {node: placed[node] for node in nodes if node.op == "placeholder"}

    def outputs(self) -> Arrays:
        """The outputs of the graph under their ONNX names."""
        found: Arrays = {}
        results = self._run(None, None)
        for entry, result in zip(self.program.outputs, results, strict=True):
            if isinstance(result, torch.Tensor):
                found[entry.name] = as_array(result)
            elif isinstance(result, (bool, int, float)):
                found[entry.name] = as_array(torch.tensor(result))
        return found

    def _run(self, note: Note | None, known: frozenset[str] | None, *, wide: bool = False) -> Sequence[Any]:
        """One run; `note` sees every call's result, also in float64 if `wide`. Returns the graph's results."""
        gm = self.program.graph_module
        plain: dict[Node, Any] = self._placed()
        exact: dict[Node, Any] = {}  # of calls; what is stored is widened where it is used, not kept twice
        with torch.no_grad(), no_fast_path(), self._equals():
            for node in gm.graph.nodes:
                if node.op == "output":
                    return map_arg(node.args[0], plain.__getitem__)
                if node.op == "get_attr":
                    plain[node] = operator.attrgetter(str(node.target))(gm)
                elif node.op == "call_function":
                    plain[node] = _called(node, plain)
                    if wide:
                        exact[node] = _called_wide(node, plain, exact, known or frozenset())
                    if note is not None:
                        note(node, plain[node], None if exact.get(node) is Lost else exact.get(node))
                for done in self._last_use.get(node, ()):
                    plain.pop(done, None)
                    exact.pop(done, None)
        raise ValueError("the graph has no output node")

    def _placed(self) -> dict[Node, Any]:
        """The values of the placeholders: the user's inputs on the devices of the weights, and the weights."""
        placed: dict[Node, Any] = {}
        writes = any(_writes(node.target) for node in self.program.graph_module.graph.nodes)
        for entry, node in zip(self.program.inputs, self.program.placeholders, strict=True):
            if entry.name in self._inputs:  # also a state, where calls before have led to another one
                placed[node] = as_value(self._inputs[entry.name], node.meta.get("val"))
            else:
                assert entry.target is not None
                held = _as_seen(self.program.tensors[entry.target].detach(), node)
                placed[node] = held.clone() if writes else held
        return placed


def _as_seen(held: torch.Tensor, node: Node) -> torch.Tensor:
    """A weight as the graph reads it: a complex one as pairs of real numbers, once the passes have made it that."""
    seen = node.meta.get("val")
    is_real = isinstance(seen, torch.Tensor) and not seen.is_complex()
    return torch.view_as_real(held.resolve_conj()) if held.is_complex() and is_real else held


def _writes(target: Any) -> bool:
    """Return True if an op writes to its operands: before the passes some do, and the model's own weights must stay."""
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


ANY_STRIDES: Mapping[Any, Any] = {
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}
"""Substitutes of operators that ask for values in order in memory: after the passes, nothing makes them so."""


def _called(node: Node, values: Mapping[Node, Any]) -> Any:
    args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
    return run_node(node, args, kwargs)


def run_node(node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call on these values. Raises NodeFailed."""
    try:
        return ANY_STRIDES.get(node.target, node.target)(*args, **kwargs)  # type: ignore[operator]  # of a call_function
    except Exception as error:
        raise NodeFailed(node, error) from error


def _called_wide(node: Node, plain: Mapping[Node, Any], exact: Mapping[Node, Any], known: frozenset[str]) -> Any:
    """The node's result in float64; `Lost` where it has none."""

    def operand(source: Node) -> Any:
        if source.op != "call_function" or key_of(source) in known:
            return widened(plain[source])
        if exact[source] is Lost:
            raise Lost
        return exact[source]

    try:
        given = with_epsilon(node.target, node.args, node.kwargs, lambda source: plain[source].dtype)
        args, kwargs = map_arg(given, operand)
        with wide_types():
            return ANY_STRIDES.get(node.target, node.target)(*args, **kwargs)  # type: ignore[operator]  # likewise
    except Exception:  # noqa: BLE001  # float64 is a yardstick that not every op allows; without it there is another
        return Lost


def key_of(node: Node) -> str:
    """The name of a node's result; a part of a tuple is named after the node that made the tuple."""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return f"{key_of(node.args[0])}.{node.args[1]}"
    return node.name


def keyed(node: Node, value: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors that a call gave, by name; what is only taken out of a tuple has been named before."""
    if node.target is operator.getitem:
        return []
    if isinstance(value, torch.Tensor):
        return [(node.name, value)]
    if isinstance(value, (tuple, list)):
        return [(f"{node.name}.{i}", each) for i, each in enumerate(value) if isinstance(each, torch.Tensor)]
    return []


def _last_uses(gm: GraphModule) -> dict[Node, list[Node]]:
    """After which node which values are not needed any more."""
    last: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        for source in node.all_input_nodes:
            last[source] = node
    ends: dict[Node, list[Node]] = {}
    for source, node in last.items():
        ends.setdefault(node, []).append(source)
    return ends
