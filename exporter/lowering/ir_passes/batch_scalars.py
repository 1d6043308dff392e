"""Equal arithmetic on many scalars, as one vector: an optimizer counts steps for every parameter of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import put_in_place, sizes_of

FEWEST = 4
"""Scalars that make a vector worth its while."""

ELEMENTWISE = frozenset(
    [
        *("Abs", "Add", "And", "Cast", "Div", "Equal", "Exp", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Log", "Max", "Min", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Sqrt", "Sub", "Where"),
    ]
)

BROADCASTING = frozenset(["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Where"])
"""Operators that accept a vector of one number in place of a scalar, if another input has axes."""

Kind = tuple[object, ...]
"""Key of scalars that one vector can hold: the dtype of inputs, or the computation from other scalars."""


class BatchScalars(ir.passes.InPlacePass):
    """One node for many: scalar inputs of the graph become a vector, and so does what is computed of each alike.

    Given:   %a = Sqrt(%s); %x = Mul(%p, %a); %b = Sqrt(%t); %y = Mul(%q, %b)
    Result:  %v = Concat(Unsqueeze(%s), Unsqueeze(%t)); %a, %b = Split(Sqrt(%v)); %x = Mul(%p, %a); %y = Mul(%q, %b)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        groups = _groups(model.graph)
        vectors = _Vectors(model.graph)
        for nodes in groups:
            vectors.add(nodes)
        for nodes in groups:
            vectors.spread(nodes)
        return ir.passes.PassResult(model, bool(groups))


def _groups(graph: ir.Graph) -> list[list[ir.Node]]:
    """Nodes that are alike, in the order of the first of each.

    One that too few are like is left out, which sets apart what reads it: so all are looked at again until none is.
    """
    alone: set[ir.Value] = set()
    while True:
        kinds: dict[ir.Value, Kind] = {each: (each.dtype,) for each in graph.inputs if _is_scalar(each)}
        groups: dict[Kind, list[ir.Node]] = {}
        for node in graph:
            kind = _kind(node, kinds)
            if kind is not None and node.outputs[0] not in alone:
                nodes = groups.setdefault(kind, [])
                nodes.append(node)
                kinds[node.outputs[0]] = (id(nodes),)
        few = {node.outputs[0] for nodes in groups.values() if _distinct(nodes) < FEWEST for node in nodes}
        if not few:
            return list(groups.values())
        alone |= few


def _kind(node: ir.Node, kinds: Mapping[ir.Value, Kind]) -> Kind | None:
    """None for a node that is not elementwise, or that reads anything but scalars, or none of a vector."""
    if node.op_type not in ELEMENTWISE or node.domain or len(node.outputs) != 1:
        return None
    if not any(value in kinds for value in node.inputs):
        return None
    if not all(value in kinds or _is_scalar(value) for value in node.inputs):
        return None
    attributes = sorted((name, str(each.value)) for name, each in node.attributes.items())
    return node.op_type, tuple(attributes), tuple(kinds.get(value, value) for value in node.inputs)  # type: ignore[arg-type]


def _distinct(nodes: Sequence[ir.Node]) -> int:
    """Return the number of nodes, or 0 where some are equal: a vector of these would hold one number."""
    return len(nodes) if len({tuple(node.inputs) for node in nodes}) == len(nodes) else 0


def _is_scalar(value: ir.Value | None) -> bool:
    return value is not None and (sizes_of(value) == () or (value.shape is not None and value.shape.rank() == 0))


class _Vectors:
    """The vectors that are made so far, and where in them each scalar is."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.places: dict[ir.Value, tuple[ir.Value, int]] = {}
        self.gathered: dict[tuple[ir.Value, ...], ir.Value] = {}
        self.replaced: set[ir.Node] = set()
        self.count = 0

    def add(self, nodes: Sequence[ir.Node]) -> None:
        """One node for all of them, before the first: what that reads is known there, and so are its vectors."""
        first = nodes[0]
        operands = zip(*(node.inputs for node in nodes), strict=True)
        inputs = [self._operand(tuple(value for value in values if value is not None), first) for values in operands]
        (vector,) = self._insert(first, first.op_type, inputs, first.attributes.values())
        vector.type, vector.shape = first.outputs[0].type, ir.Shape([len(nodes)])
        self.places |= {node.outputs[0]: (vector, place) for place, node in enumerate(nodes)}
        self.replaced.update(nodes)

    def _operand(self, values: tuple[ir.Value, ...], first: ir.Node) -> ir.Value:
        """The values as a vector, or the one that all of them are."""
        if len(set(values)) == 1:
            return values[0]
        if values not in self.gathered:
            self.gathered[values] = self._gathered(values, first)
        return self.gathered[values]

    def _gathered(self, values: tuple[ir.Value, ...], first: ir.Node) -> ir.Value:
        if values[0] not in self.places:  # inputs of the graph
            rows = [self._insert(first, "Unsqueeze", [value, self._constant([0])])[0] for value in values]
            return self._insert(first, "Concat", rows, [ir.AttrInt64("axis", 0)])[0]
        vector, _ = self.places[values[0]]
        places = [self.places[value][1] for value in values]
        assert vector.shape is not None
        if places == list(range(vector.shape.numpy()[0])):
            return vector
        return self._insert(first, "Gather", [vector, self._constant(places)])[0]

    def spread(self, nodes: Sequence[ir.Node]) -> None:
        """Replace the scalars by outputs of a Split for all other readers; outputs of one node on inputs stay as they
        are.
        """
        vector, _ = self.places[nodes[0].outputs[0]]
        scalars = [node.outputs[0] for node in nodes if not self._stays(node)]
        if not any(value.is_graph_output() or self._readers(value) for value in scalars):
            return
        after = vector.producer()
        assert after is not None
        parts = self._insert(after, "Split", [vector, self._constant([1] * len(nodes))], [], len(nodes), after=True)
        for value in scalars:
            self._put(value, parts[self.places[value][1]])

    def _stays(self, node: ir.Node) -> bool:
        return node.outputs[0].is_graph_output() and not any(value in self.places for value in node.inputs)

    def _readers(self, value: ir.Value) -> list[tuple[ir.Node, int]]:
        """The nodes beside those that vectors replace that read a value, and as which operand."""
        return [(node, index) for node, index in value.uses() if node not in self.replaced]

    def _put(self, value: ir.Value, part: ir.Value) -> None:
        """The part of a Split takes the place of a scalar, without its axis where that would show."""
        for node, index in self._readers(value):
            if node.op_type in BROADCASTING and any(sizes_of(each) for each in node.inputs):
                node.replace_input_with(index, part)
        if value.is_graph_output() or self._readers(value):
            split = part.producer()
            assert split is not None
            (scalar,) = self._insert(split, "Squeeze", [part, self._constant([0])], after=True)
            scalar.type, scalar.shape = value.type, value.shape
            put_in_place(value, scalar)

    def _constant(self, numbers: Sequence[int]) -> ir.Value:
        name = "batched_" + "_".join(map(str, numbers))
        if name not in self.graph.initializers:
            self.graph.initializers.add(ir.val(name, const_value=ir.Tensor(np.array(numbers, np.int64), name=name)))
        return self.graph.initializers[name]

    def _insert(
        self,
        near: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value],
        attributes: Iterable[ir.Attr] = (),
        outputs: int = 1,
        after: bool = False,
    ) -> Sequence[ir.Value]:
        self.count += 1
        name = f"{near.name}/{op_type}_{self.count}"
        node = ir.Node("", op_type, inputs, attributes, num_outputs=outputs, name=name)
        node.metadata_props.update(near.metadata_props)
        for index, value in enumerate(node.outputs):
            value.name = name if outputs == 1 else f"{name}.{index}"
            value.type = inputs[0].type
        (self.graph.insert_after if after else self.graph.insert_before)(near, node)
        return node.outputs
