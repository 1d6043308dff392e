"""Prediction of the nodes that a provider which is not on this machine leaves to the CPU, by its kernel table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import onnx_ir as ir
from onnx import defs

from fxport.diagnostics import Place
from fxport.exporter.lowering import kernels
from fxport.exporter.lowering.ir_passes.insert_casts import binding_of
from fxport.exporter.lowering.kernels import has_kernel, kernels_of
from fxport.exporter.lowering.lower.places import PlaceTable

BODIES = frozenset({"If", "Loop", "Scan"})


@dataclass(frozen=True, slots=True)
class Prediction:
    """Number of nodes, and those without a kernel, each with the user's line that it came from.

    `copies` counts the values that pass between the provider and the CPU, in both directions.
    """

    provider: str
    nodes: int
    elsewhere: tuple[tuple[str, Place | None], ...]
    copies: int = 0


def providers() -> tuple[str, ...]:
    """The providers that have a table."""
    files = resources.files(kernels).iterdir()
    return tuple(sorted(file.name.removesuffix(".tsv") for file in files if file.name.endswith(".tsv")))


def predicted(model: ir.Model, provider: str) -> Prediction:
    """The prediction for a model's own nodes and those in bodies. An operator that ONNX defines by others is taken to
    be expanded; nodes outside ai.onnx, and those that only hold bodies, are not counted.
    A function counts at each call."""
    opset, places = model.opset_imports[""], PlaceTable(model)
    every = (node for call in _called(model, model.graph) for node in ir.traversal.RecursiveGraphIterator(call))
    nodes = [node for node in every if not node.domain and node.op_type not in BODIES]
    lost = [node for node in nodes if not _runs(node, opset, provider)]
    elsewhere = tuple((node.op_type, places.of(node)) for node in lost)
    return Prediction(provider, len(nodes), elsewhere, _copies(nodes, set(lost)))


def _called(model: ir.Model, graph: ir.Graph | ir.Function) -> Iterator[ir.Graph | ir.Function]:
    """A graph, and the functions of the model as often as it calls them."""
    yield graph
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if (function := model.functions.get(node.op_identifier())) is not None:
            yield from _called(model, function)


def _copies(nodes: Sequence[ir.Node], lost: set[ir.Node]) -> int:
    """The values that are made on one side and used on the other. Inputs and weights lie where they are used."""
    made = (value for node in nodes for value in node.outputs)
    return sum(any((use.node in lost) != (value.producer() in lost) for use in value.uses()) for value in made)


def _runs(node: ir.Node, opset: int, provider: str) -> bool:
    if node.op_type in kernels_of(provider):
        return has_kernel(provider, node.op_type, opset, binding_of(node, opset))
    schema: Any = defs.get_schema(node.op_type, opset)  # whose stubs lack these two
    return schema.has_function or schema.has_context_dependent_function
