"""Regions of a captured graph that only set a mode: their nodes become nodes of the graph around them.

What is a view inside of a region is one outside, where it may be written to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch.amp.autocast_mode import _enter_autocast
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from fxport.fx_passes.graph import bodies
from fxport.fx_passes.passes.inline_regions import AUTOCAST, BODY_ARGUMENT, splice_regions


def without_regions(exported: ExportedProgram) -> ExportedProgram:
    """Return the program without such regions at any depth, but those that turn autocast on, or off within one."""
    if _spliced(exported.graph_module):
        results: Any = exported.graph.output_node().args[0]
        for spec, value in zip(exported.graph_signature.output_specs, results, strict=True):
            if isinstance(value, Node):
                spec.arg = replace(spec.arg, name=value.name)  # type: ignore[type-var]  # each has a name
        exported.graph_module.recompile()
    return exported


def with_open_regions(gm: GraphModule) -> GraphModule:
    """Return the graph, or a copy for those that ask where memory is: one without regions that turn autocast on."""
    if not _has_region(gm):
        return gm
    made = _copied(gm)
    _spliced(made, autocast=True)
    return made


def _spliced(gm: GraphModule, *, autocast: bool = False, within: bool = False) -> bool:
    found = []
    within = within or any(map(_begins, gm.graph.nodes))  # around control flow, a region is a pair of calls
    for name, body in bodies(gm):
        users = [user for node in gm.graph.find_nodes(op="get_attr", target=name) for user in node.users]
        setting = next((user.args[2] is not False for user in users if user.target is AUTOCAST), within)
        found.append(_spliced(body, autocast=autocast, within=setting))
    return splice_regions(gm, autocast=autocast, within=within) or any(found)


def _begins(node: Node) -> bool:
    return node.target is _enter_autocast and node.args[2] is not False


def _has_region(gm: GraphModule) -> bool:
    return any(node.target in BODY_ARGUMENT for node in gm.graph.nodes) or any(_has_region(b) for _, b in bodies(gm))


def _copied(gm: GraphModule) -> GraphModule:
    """Return a graph of the same values, with copies of its bodies."""
    graph, values = Graph(), dict[Node, Node]()
    results: Any = graph.graph_copy(gm.graph, values)
    graph.output(results)
    made = GraphModule(gm, graph)
    for name, body in bodies(gm):
        made.set_submodule(name, _copied(body))
    return made
