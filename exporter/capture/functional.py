"""Captured programs in a form whose writes the passes can rewrite."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from fxport.exporter.capture.guards.askers import Line
from fxport.exporter.capture.guards.guard import Guard, blame_writes
from fxport.fx_passes.aliases import expand_aliases
from fxport.fx_passes.graph import bodies
from fxport.fx_passes.passes.functionalize import unsupported


def functional(
    exported: ExportedProgram, guards: list[Guard] | None = None, unkept: dict[Line, str] | None = None
) -> ExportedProgram:
    """Return the program in a form whose writes the passes can rewrite.

    Nearly every program is; only one with a region that turns autocast on at any depth, or with a write through a view
    that has no inverse, is traced again by PyTorch, with all its ops kept whole. What PyTorch then adds to `guards`
    gets the line of those writes, and `unkept` the reason.
    """
    _complete_users(exported.graph_module)
    _drop_failed(exported.graph_module)
    _drop_profiled(exported.graph_module)
    expand_aliases(exported.graph_module)
    writes, known = unsupported(exported.graph_module), len(guards or ())
    if writes or _sets_autocast(exported.graph_module):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, about how it writes its own autocast regions
            exported = exported.run_decompositions({})
        blame_writes(writes, guards or [], known, {} if unkept is None else unkept)
    return exported


def copied(exported: ExportedProgram, tensors: Mapping[int, torch.Tensor] | None = None) -> ExportedProgram:
    """Return a copy of the program that passes on the original do not change.

    It has the tensors of the original; those whose `id` is in `tensors` are replaced by the tensor there.
    """
    held = (*exported.state_dict.values(), *exported.constants.values(), *pytree.tree_leaves(exported.example_inputs))
    memo: dict[int, Any] = {id(each): each for each in held} | dict(tensors or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, about how it copies its own containers
        made = deepcopy(exported, memo)
    _take_names(exported.graph_module, made.graph_module)
    return made


def _take_names(old: torch.fx.GraphModule, new: torch.fx.GraphModule) -> None:
    """Give the nodes of a copy the names of the original; a copy renames what has the name of a builtin."""
    for (_, one), (_, other) in zip(bodies(old), bodies(new), strict=True):
        _take_names(one, other)
    pairs = [*zip(old.graph.nodes, new.graph.nodes, strict=True)]
    if any(one.name != other.name for one, other in pairs):
        for one, other in pairs:
            other.name, other.target = one.name, one.target if one.op == "placeholder" else other.target
        new.recompile()


def _sets_autocast(gm: torch.fx.GraphModule) -> bool:
    """Return whether autocast is turned on in the graph or in a body; around control flow it stays a pair of calls.

    Where none turns it on, a region that turns it off changes nothing.
    """
    for node in gm.graph.nodes:
        if node.target is torch.amp.autocast_mode._enter_autocast:
            return True
        if node.target is torch.ops.higher_order.wrap_with_autocast and node.args[2] is not False:
            return True
    return any(_sets_autocast(body) for _, body in bodies(gm))


def _complete_users(gm: torch.fx.GraphModule) -> None:
    """Note every use of a node with the node: a trace loses some, as of what is read by `.data` after two writes."""
    for _, body in bodies(gm):
        _complete_users(body)
    for node in gm.graph.nodes:
        for source in node.all_input_nodes:
            source.users.setdefault(node)


def _drop_profiled(gm: torch.fx.GraphModule) -> None:
    """Drop the calls that begin and end a range of PyTorch's profiler, which give and change no value."""
    for _, body in bodies(gm):
        _drop_profiled(body)
    for node in reversed(gm.graph.nodes):
        if isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "profiler":
            gm.graph.erase_node(node)


def _drop_failed(gm: torch.fx.GraphModule) -> None:
    """Drop the calls that raised while they were traced, and that the model went on without: they have no value."""
    for _, body in bodies(gm):
        _drop_failed(body)
    for node in [*gm.graph.nodes]:
        is_op = isinstance(node.target, torch._ops.OpOverload) and node.target._schema.returns
        if is_op and node.meta.get("val") is None and not node.users:
            gm.graph.erase_node(node)
