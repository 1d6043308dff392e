"""Nodes and constants that passes of packages put into a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

INSERTED = "fxport.inserted"
"""Count of the nodes that were put before one, in its `meta`: their names tell them apart."""


def constant(graph: ir.Graph | ir.Function | None, array: np.ndarray) -> ir.Value:
    """A constant of the graph, of which it has one for each content."""
    assert isinstance(graph, ir.Graph)
    name = f"constant.{array.dtype}.{'x'.join(map(str, array.reshape(-1).tolist()))}"
    if name not in graph.initializers:
        tensor = ir.Tensor(array, name=name)
        kind, shape = ir.TensorType(tensor.dtype), ir.Shape(array.shape)
        graph.register_initializer(ir.Value(name=name, type=kind, shape=shape, const_value=tensor))
    return graph.initializers[name]


def insert(
    before: ir.Node,
    kind: str,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, object],
    *,
    domain: str = "",
    outputs: int = 1,
    name: str | None = None,
) -> ir.Node:
    """A node before another one, at its place in the source."""
    assert before.graph is not None
    known = ir.convenience.convert_attributes(dict(attributes))  # type: ignore[arg-type]  # numbers and lists of them
    number = before.meta[INSERTED] = before.meta.get(INSERTED, 0) + 1
    name = name or f"{before.name}/{kind}.{number}"
    made = ir.Node(domain, kind, inputs, known, num_outputs=outputs, name=name)
    made.metadata_props.update(before.metadata_props)
    for index, value in enumerate(made.outputs):
        value.name = name if not index else f"{name}.{index}"
    before.graph.insert_before(before, made)
    return made
