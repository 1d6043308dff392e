"""Nodes and bytes of weights that each of the model's own modules became."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx_ir as ir

from fxport.diagnostics.model import Part
from fxport.exporter.lowering.lower.places import PlaceTable


def parts_of(model: ir.Model) -> Sequence[Part]:
    """The modules of the first level with what is inside them, the largest first."""
    table, nodes, weights = PlaceTable(model), Counter[str](), Counter[str]()
    for body in (model.graph, *model.functions.values()):
        for node in ir.traversal.RecursiveGraphIterator(body):
            place = table.of(node)
            nodes[(place.module or "").partition(".")[0] if place else ""] += 1
    for name, value in model.graph.initializers.items():
        owner, dot, _ = name.partition(".")
        if dot and "/" not in owner and value.const_value is not None:  # a slash: a constant, named by its node
            weights[owner] += value.const_value.nbytes
    names = sorted({*nodes, *weights} - {""}, key=lambda name: (-weights[name], -nodes[name], name))
    return [Part(name, nodes[name], weights[name]) for name in names]
