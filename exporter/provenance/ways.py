"""The way of a value through an export: what each stage made of a line, and where that stands in the dumped files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import onnx_ir as ir
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log, Place, Step
from fxport.exporter.lowering.ir_passes.pipeline import write_dump as write_model
from fxport.exporter.lowering.lower.places import PlaceTable
from fxport.exporter.lowering.lower.walk import target_name
from fxport.fx_passes.base import write_dump
from fxport.fx_passes.graph import CAPTURED, bodies, place_of

CAPTURED_FILE, NORMALIZED_FILE, MODEL_FILE = "captured.fx.py", "normalized.fx.py", "model.onnx.txt"
MOST_NAMED = 3
_CLASS = re.compile(r"^(?P<indent> *)class (?P<name>\w+)\(")
_MADE = re.compile(r"^ +(?P<name>\w+)(?:: \"[^\"]*\")? = ")
_TITLE = re.compile(r"^ *\d+ \|  # (?P<name>.+)$")

Lines = Mapping[str, int]


class Way:
    """Log entries at the end of each stage, in one line each; the search for nodes waits until it is read.

    With `dump` each stage's graph is written there, and the steps point into it; else they stay at the user's line.
    Nodes in the bodies of control flow are called "<body>.<node>".
    """

    def __init__(self, log: Log, dump: Path | None) -> None:
        self._log, self._dump = log, dump
        self._targets: dict[str, object] = {}
        self._graph: GraphModule | None = None
        self._model: ir.Model | None = None
        self._nodes: list[tuple[str, Node]] | None = None
        self._made: dict[str, list[ir.Node]] | None = None
        self._lines: dict[str, Lines] = {}

    def captured(self, gm: GraphModule) -> None:
        """Notes on each node its name in the captured graph, which passes hand on to what they make of it."""
        for name, node in _named(gm):
            node.meta[CAPTURED] = name
            if node.op == "call_function":
                self._targets[name] = node.target
        if self._dump is not None:
            write_dump(gm, self._dump / CAPTURED_FILE)
        self._log.follow(self.of)

    def normalized(self, gm: GraphModule) -> None:
        """The graph that is lowered."""
        self._graph, self._nodes = gm, None
        if self._dump is not None:
            write_dump(gm, self._dump / NORMALIZED_FILE)
        self._log.follow(self.of)

    def finished(self, model: ir.Model) -> None:
        """The ONNX model as it is saved."""
        self._model, self._made = model, None
        if self._dump is not None:
            write_model(model, self._dump / MODEL_FILE)
        self._log.follow(self.of)

    def of(self, place: Place) -> tuple[Step, ...]:
        """The user's line, its node as captured, as normalized, and the ONNX nodes; nothing where no stage knows it."""
        found = self._normalized_node(place)
        captured = found[1].meta.get(CAPTURED) if found else place.captured
        if found and not place.stack and (here := place_of(found[1])):  # a model keeps no stacks
            place = replace(place, stack=here.stack)
        steps = [*self._captured_step(place, captured), *self._normalized_step(place, found, captured)]
        steps += self._model_step(place, found)
        return (Step("Your line.", place), *steps) if steps else ()

    def _captured_step(self, place: Place, name: str | None) -> Iterator[Step]:
        if name in self._targets:
            text = f"Captured as '{name}', {target_name(self._targets[name])}."
            yield Step(text, self._place(place, CAPTURED_FILE, name))

    def _normalized_step(self, place: Place, found: tuple[str, Node] | None, captured: str | None) -> Iterator[Step]:
        if found is None:
            return
        name, node = found
        if self._dump is not None or (name, node.target) != (captured, self._targets.get(name)):
            here = place_of(node) or place
            text = f"After normalization '{name}', {target_name(node.target)}."
            yield Step(text, self._place(here, NORMALIZED_FILE, name))

    def _model_step(self, place: Place, found: tuple[str, Node] | None) -> Iterator[Step]:
        nodes = self._onnx_nodes(place, found[1].name if found else place.node)
        if nodes:
            told = ", ".join(f"'{node.name}'" for node in nodes[:MOST_NAMED])
            more = f" and {len(nodes) - MOST_NAMED} more" if len(nodes) > MOST_NAMED else ""
            at = replace(self._place(place, MODEL_FILE, nodes[0].name or ""), node=None, onnx_node=nodes[0].name)
            yield Step(f"In the ONNX model {told}{more}.", at)

    def _normalized_node(self, place: Place) -> tuple[str, Node] | None:
        """By its name, where it also has the line: names in bodies are names of their own. Else by what it was."""
        if self._graph is None or (place.node is None and place.captured is None):
            return None
        if self._nodes is None:
            self._nodes = [each for each in _named(self._graph) if each[1].op == "call_function"]
        same = [each for each in self._nodes if each[1].name == place.node and _is_at(each[1], place)]
        if place.captured is not None:
            heirs = [each for each in self._nodes if each[1].meta.get(CAPTURED) == place.captured]
            same = [each for each in same if each in heirs] or heirs
        return same[-1] if same else None

    def _onnx_nodes(self, place: Place, name: str | None) -> list[ir.Node]:
        if self._model is None:
            return []
        if self._made is None:
            self._made = {}
            table = PlaceTable(self._model)
            for node in _model_nodes(self._model):
                if (at := table.of(node)) is not None and at.node is not None:
                    self._made.setdefault(at.node, []).append(node)
                    self._made.setdefault(f"/{node.name}", []).append(node)
        if place.onnx_node is not None and (exact := self._made.get(f"/{place.onnx_node}")):
            return exact
        table = PlaceTable(self._model)
        made = self._made.get(name or "", ())
        return [node for node in made if (at := table.of(node)) and (at.path, at.line) == (place.path, place.line)]

    def _place(self, place: Place, file: str, name: str) -> Place:
        """The line of a node in a dumped file; the user's line where nothing was dumped."""
        line = self._lines_of(file).get(name) if self._dump is not None else None
        if self._dump is None or line is None:
            return Place(place.path, place.line, module=place.module, node=name, stack=place.stack)
        return Place(str(self._dump.resolve() / file), line, module=place.module, node=name, stack=place.stack)

    def _lines_of(self, file: str) -> Lines:
        assert self._dump is not None
        if file not in self._lines:
            text = (self._dump / file).read_text(encoding="utf-8").splitlines()
            self._lines[file] = dict(_titles(text) if file == MODEL_FILE else _assignments(text))
        return self._lines[file]


def _named(gm: GraphModule, prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Each node of a graph and of its bodies, with the name by which a dump shows it."""
    for node in gm.graph.nodes:
        yield prefix + node.name, node
    for name, body in bodies(gm):
        yield from _named(body, f"{prefix}{name}.")


def _model_nodes(model: ir.Model) -> Iterator[ir.Node]:
    for body in (model.graph, *model.functions.values()):
        yield from ir.traversal.RecursiveGraphIterator(body)


def _is_at(node: Node, place: Place) -> bool:
    at = place_of(node)
    return at is not None and (at.path, at.line) == (place.path, place.line)


def _assignments(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Names of nodes in a dumped graph, with their lines: those of bodies stand in classes inside the class."""
    owners: list[str] = []
    for number, line in enumerate(lines, start=1):
        if found := _CLASS.match(line):
            owners[len(found["indent"]) // 4 :] = [found["name"]]
        elif made := _MADE.match(line):
            yield ".".join((*owners[1:], made["name"])), number


def _titles(lines: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Names of nodes in a dumped model; the node itself is on the line after its name."""
    for number, line in enumerate(lines, start=1):
        if found := _TITLE.match(line):
            yield found["name"], number + 1
