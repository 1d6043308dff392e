"""Branches whose gradients are asked for: a graph of each, and one of its gradient.

PyTorch makes the gradient of a branch out of the branch's graph, when it is asked for. The graph has what operators
compute, and not what autograd was told: that nothing is recorded in `torch.no_grad()`, or that a function or a hook of
the model's makes the gradient. So the gradient is recorded with the branch, by autograd, while that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.utils import materialize_as_graph
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

from fxport.exporter.capture.control_flow.absent_gradients import (
    Arms,
    Paths,
    is_recorded,
    note,
    paths_between,
    places_of,
)
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.views import storage_of
from fxport.exporter.capture.guards.askers import line_that_asks
from fxport.exporter.capture.patches.body_gradients import set_gradients

Branch = Callable[..., Sequence[Tensor]]


def recorded_cond(
    test: Tensor, branches: Sequence[Branch], operands: Sequence[Any], results: Sequence[Any]
) -> Sequence[Tensor]:
    """Record two branches as a cond, with their gradients where they are asked for.

    Args:
        test: The test, a tensor of one truth value.
        branches: The branches for true and for false, functions of the operands.
        operands: Tensors and numbers.
        results: What the branches gave when they were rehearsed. One of them may record a gradient in `no_grad()`, or
            give a tensor that has one.
    """
    begun = torch.is_grad_enabled()
    has_history = any(isinstance(each, Tensor) and each.requires_grad for each in results)
    with nullcontext() if begun or not has_history else torch.enable_grad():
        if not is_recorded(operands):
            return torch.ops.higher_order.cond(test, *branches, operands)
        (then, then_paths), (other, other_paths) = (differentiated(each, operands, begun) for each in branches)
        after = torch.ops.higher_order.cond(test, then, other, operands)
        note(after, Arms(test, then_paths, other_paths, places_of(operands), line_that_asks()))
        return after


def differentiated(branch: Branch, operands: Sequence[Any], begun: bool) -> tuple[GraphModule, Paths]:
    """Return a graph of a branch, with its gradient for `body_gradients`, and the paths of gradients through it.

    `begun` tells whether the branch begins with gradients recorded.
    """
    marks: list[Node] = []
    paths: list[Paths] = []
    count = 0

    def joint(*given: Any) -> list[Any]:
        nonlocal count
        with nullcontext() if begun else torch.no_grad():
            results = branch(*given)
        count = len(results)
        paths.append(paths_between(given, results))
        tangents = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in results]
        marks.extend(map(_node_of, tangents))
        return [*results, *_gradients(given, results, tangents)]

    graph = materialize_as_graph(joint, tuple(operands), force_enable_grad=True)
    forward = _forward_of(graph, marks, count)
    set_gradients(forward, _backward_of(graph, marks, count), len(operands))
    return forward, paths[0]


def _gradients(given: Sequence[Any], results: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Any]:
    """Return the gradient for each operand, with memory of its own: zeros where there is none, None for a number."""
    leaves = [each for each in given if isinstance(each, Tensor) and each.requires_grad]
    pairs = [pair for pair in zip(results, tangents, strict=True) if pair[0].requires_grad]
    found: dict[int, Tensor | None] = {}
    if leaves and pairs:
        ends, weights = zip(*pairs, strict=True)
        gradients = torch.autograd.grad(ends, leaves, weights, allow_unused=True)
        found = {id(leaf): gradient for leaf, gradient in zip(leaves, gradients, strict=True)}
    taken = {storage_of(each) for each in (*given, *tangents) if isinstance(each, Tensor)}
    own: list[Any] = []
    for each in given:
        gradient = found.get(id(each))
        if isinstance(each, Tensor):
            gradient = torch.zeros_like(each) if gradient is None else gradient
            gradient = gradient.clone() if storage_of(gradient) in taken else gradient
            taken.add(storage_of(gradient))
        own.append(gradient)
    return own


def _node_of(tensor: Tensor) -> Node:
    mode = get_proxy_mode()
    slot = None if mode is None else get_proxy_slot(tensor, mode.tracer, None)
    if slot is None:
        raise LoopError("its results are in no graph")
    return slot.proxy.node


def _forward_of(graph: GraphModule, marks: Sequence[Node], count: int) -> GraphModule:
    """Return the graph up to the marks, with the results of the branch."""
    new, copies = Graph(), dict[Node, Node]()
    end = marks[0] if marks else _output_of(graph)
    for node in graph.graph.nodes:
        if node is end:
            break
        copies[node] = new.node_copy(node, copies.__getitem__)
    _give(new, [copies[each] for each in _results_of(graph)[:count]])
    return GraphModule(graph, new)


def _backward_of(graph: GraphModule, marks: Sequence[Node], count: int) -> GraphModule:
    """Return the whole graph with an input in the place of each mark, behind the operands, and the gradients."""
    new, copies = Graph(), dict[Node, Node]()
    for node in (*graph.graph.find_nodes(op="placeholder"), *marks):
        copies[node] = new.placeholder(node.name)
        copies[node].meta = node.meta.copy()
    for node in graph.graph.nodes:
        if node.op != "output" and node not in copies:
            copies[node] = new.node_copy(node, copies.__getitem__)
    _give(new, [copies[each] if isinstance(each, Node) else each for each in _results_of(graph)[count:]])
    return GraphModule(graph, new)


def _output_of(graph: GraphModule) -> Node:
    return graph.graph.output_node()


def _results_of(graph: GraphModule) -> Sequence[Any]:
    return _output_of(graph).args[0]  # type: ignore[return-value]  # a list of nodes


def _give(graph: Graph, results: Sequence[Any]) -> None:
    graph.output(tuple(results))
    graph.eliminate_dead_code()
