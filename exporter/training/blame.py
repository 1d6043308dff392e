"""Part of a training step to which a node of its graph belongs, and the user's line of that node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.fx import Node

from fxport.diagnostics import Place
from fxport.exporter.training.step import NEW, OPTIMIZER, PARAMETER, UPDATE
from fxport.fx_passes.graph import PART, place_of
from fxport.fx_passes.program import Program


@dataclass(frozen=True, slots=True)
class Blame:
    """A part of the step: forward, backward or optimizer. In the last, the parameter that is updated.

    `place` is the line of the operation, of what it differentiates, or of the first read of the parameter.
    """

    part: str
    parameter: str = ""
    place: Place | None = None

    @property
    def text(self) -> str:
        return f"{self.part} of '{self.parameter}'" if self.parameter else self.part


def blamed(program: Program, name: str) -> Blame | None:
    """Return the part of a training step to which a node belongs; None if it has none or is not in the graph."""
    node = next((node for node in program.graph_module.graph.nodes if node.name == name), None)
    part = node.meta.get(PART) if node is not None else None
    if node is None or part is None:
        return None
    if part != UPDATE:
        return Blame(part, place=place_of(node))
    parameter = next(_updated(program, node), "")
    return Blame(part, parameter, place_of(node) or reads_of(program).get(f"{PARAMETER}/{parameter}"))


def reads_of(program: Program) -> dict[str, Place]:
    """Return the place of the first use of each input of the captured graph, as far as it is known."""
    nodes = [node for node in program.graph_module.graph.nodes if node.op == "placeholder"]
    found: dict[str, Place] = {}
    for node, each in zip(nodes, program.inputs, strict=True):
        places = (place_of(reader) for reader in _behind(node))
        place = next((place for place in places if place is not None), None)
        if place is not None:
            found[each.name] = place
    return found


def _updated(program: Program, node: Node) -> Iterator[str]:
    """The parameters whose new value or new optimizer state depends on a node, in the order of the outputs."""
    depend = {node, *_behind(node)}
    results = next(iter(reversed(program.graph_module.graph.nodes))).args[0]
    assert isinstance(results, (tuple, list))
    for result, output in zip(results, program.outputs, strict=True):
        new, _, name = output.name.partition("/")
        kind, _, name = name.partition("/")
        if result in depend and new == NEW:
            yield name.rpartition("/")[0] if kind == OPTIMIZER else name


def _behind(node: Node) -> Iterator[Node]:
    """Yield the nodes that depend on a node, the nearest first."""
    reading, seen = [node], {node}
    for reader in reading:  # grows while it is walked
        if reader is not node:
            yield reader
        fresh = [user for user in reader.users if user not in seen]
        seen.update(fresh)
        reading.extend(fresh)
