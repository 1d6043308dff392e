"""Folded weights: the results of nodes on weights alone, computed by PyTorch when the model is saved."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fxport.exporter.lowering.lower.weights import values_of
from fxport.exporter.pipeline.options import Options
from fxport.fx_passes.program import Input, Program
from fxport.fx_passes.weight_folds import Folds, folds_of

SUFFIX = ".folded"
"""End of the name of a folded weight, behind that of the largest weight in it."""


def folds_for(program: Program, options: Options) -> Folds:
    """Find what an export folds: nothing where it is not optimized, or where weights stay in their files."""
    if not options.optimize or options.weights_in_place:
        return Folds()
    return folds_of(program, options.lowerings)


@dataclass(frozen=True, slots=True)
class FoldedWeight:
    """A `WeightSource`: the result of a node, computed on the CPU from the weights that it depends on.

    Only what is still needed is in memory. Views are contiguous, as the passes take all values to be.

    Attributes:
        program: The program that has the weights.
        entries: Its inputs, by their placeholders.
        node: The node of the result.
        float_dtype: The type of floats that operators give where nothing else says it, as in the capture.
    """

    program: Program
    entries: Mapping[Node, Input]
    node: Node
    float_dtype: torch.dtype = field(default_factory=torch.get_default_dtype)

    def read(self) -> torch.Tensor:
        """Compute the result. Raises WeightlessError where a weight has no values."""
        order = _order(self.node)
        values: dict[Node, Any] = {}
        last = {source: node for node in order for source in node.all_input_nodes}
        with _settings_of_the_capture(self.float_dtype):
            for node in order:
                values[node] = self._value(node, values)
                for source in node.all_input_nodes:
                    if last[source] is node:
                        del values[source]
        return values[self.node]

    def _value(self, node: Node, values: Mapping[Node, Any]) -> Any:
        if node.op == "placeholder":
            entry = self.entries[node]
            assert entry.target is not None
            tensors, sources = self.program.tensors, self.program.sources
            return values_of(entry.name, tensors[entry.target], sources.get(entry.target))
        if node.op == "get_attr":
            return values_of(node.name, operator.attrgetter(str(node.target))(self.program.graph_module), None)
        args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
        args, kwargs = pytree.tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
        result = node.target(*args, **kwargs)  # type: ignore[operator]  # of a call_function
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, result)


@contextmanager
def _settings_of_the_capture(float_dtype: torch.dtype) -> Iterator[None]:
    """Keep what surrounds the call of `save` from the results: autocast, the default device and the default dtype.

    What autocast does to a model is a part of its graph.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(float_dtype)
    try:
        with torch.no_grad(), torch.device("cpu"), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_default_dtype(before)


def _order(last: Node) -> list[Node]:
    """The nodes that a node depends on, in the order in which they are computed, and itself."""
    found: dict[Node, None] = {}
    pending = [last]
    while pending:
        node = pending[-1]
        missing = [source for source in node.all_input_nodes if source not in found]
        pending.extend(missing)
        if not missing:
            found[pending.pop()] = None
    return [*found]
