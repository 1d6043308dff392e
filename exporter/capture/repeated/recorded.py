"""The nodes that a call of a block made: recorded, copied for a call that is alike, and compared with those of one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
from torch.autograd.graph import increment_version
from torch.fx import Node, Proxy
from torch.fx.experimental.proxy_tensor import (
    PythonKeyTracer,
    disable_proxy_modes_tracing,
    get_proxy_slot,
    track_tensor_tree,
)
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.caches import is_layered
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.bookkeeping import modes_away
from fxport.exporter.capture.repeated.likeness import PLAIN, Call, is_plain
from fxport.fx_passes.regions import REGION
from fxport.fx_passes.traces import SYMBOLIC, described

_NUMBER = re.compile(r"_\d+$")


class NotCopiedError(Exception):
    """The nodes of a call cannot be copied for another one."""


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a call: the node that it is, or the place of the argument that it is, else a plain value.

    Attributes:
        node: The node.
        is_view: The tensor of the node is a view of another one that the call has made.
        argument: The place of the argument.
        value: The plain value.
    """

    node: Node | None = None
    is_view: bool = False
    argument: int | None = None
    value: Any = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call of a block, with the nodes that it made.

    Attributes:
        path: The path of the block in the model.
        call: What it was given.
        nodes: The nodes, without those that compute sizes, which each call that comes later finds in the graph.
        results: The results, in the order in which `structure` nests them.
        structure: How the results nest.
        tensors: The results that are nodes.
    """

    path: str
    call: Call
    nodes: Sequence[Node]
    results: Sequence[Result]
    structure: pytree.TreeSpec
    tensors: Mapping[Node, Tensor]

    @staticmethod
    def of(path: str, call: Call, nodes: Sequence[Node], results: Any, tracer: PythonKeyTracer) -> Recorded:
        """Record a call. Raises NotCopiedError where it did what a copy of its nodes would not do."""
        _require_one_to_one(call)
        given = {id(tensor): place for place, tensor in enumerate(call.tensors)}
        own = set(nodes)
        taken = {each for node in nodes for each in node.all_input_nodes if each not in own}
        outside = {_memory(each) for each in pytree.tree_leaves([*call.tensors, *(node.meta["val"] for node in taken)])}
        for node in nodes:
            _require_copyable(node, outside)
        leaves, structure = pytree.tree_flatten(results, is_leaf=is_layered)
        found = [_result(leaf, given, own, outside, tracer) for leaf in leaves]
        tensors = {each.node: leaf for each, leaf in zip(found, leaves, strict=True) if each.node is not None}
        objects = {id(leaf) for each, leaf in zip(found, leaves, strict=True) if each.node is not None}
        if len({*map(_memory, tensors.values())}) < len(tensors) or len(objects) > len(tensors):
            raise NotCopiedError("two results share their memory")
        return Recorded(path, call, [node for node in nodes if not _is_size(node)], found, structure, tensors)

    def copied(self, path: str, call: Call, tracer: PythonKeyTracer) -> Any:
        """Copy the nodes for a call that is alike, of the block at another path; return its results."""
        nodes = dict(zip(self.call.nodes, call.nodes, strict=True))
        memory = {_memory(one): other for one, other in zip(self.call.tensors, call.tensors, strict=True)}
        made: dict[Node, Tensor] = {}
        views = {each.node for each in self.results if each.is_view}
        inner = self._inner({*memory, *(_memory(node.meta["val"]) for node in self.tensors)})
        with disable_proxy_modes_tracing(), modes_away(), torch.no_grad():
            for node in self.nodes:
                new = self._copy(node, nodes, path, tracer)
                nodes[node] = new
                if node not in inner:
                    new.meta["val"] = _mapped(node.meta["val"], partial(_anew, memory=memory))
                if node in self.tensors:
                    value = _anew(new.meta["val"], {_memory(new.meta["val"]): new.meta["val"]})
                    made[node] = value.view(value.shape) if node in views else value
        for node, value in made.items():
            for _ in range(version(self.tensors[node]) or 0):  # the writes to it within the block
                increment_version(value)
            track_tensor_tree(value, Proxy(nodes[node], tracer), constant=None, tracer=tracer)
        leaves = [
            made[each.node]
            if each.node is not None
            else call.tensors[each.argument]
            if each.argument is not None
            else each.value
            for each in self.results
        ]
        return pytree.tree_unflatten(leaves, self.structure)

    def _inner(self, outer: Set[int | None]) -> Set[Node]:
        """Return the nodes whose fake values copies may share: all in memory that none but the call reads or writes.

        With dynamic sizes a fake tensor takes longer to make than the node.
        """
        if any(isinstance(node.target, OpOverload) and node.target._schema.is_mutable for node in self.nodes):
            return frozenset()
        values = {node: [*map(_memory, pytree.tree_leaves(node.meta["val"]))] for node in self.nodes}
        return {node for node, each in values.items() if None not in each and outer.isdisjoint(each)}

    def _copy(self, node: Node, nodes: Mapping[Node, Node], path: str, tracer: PythonKeyTracer) -> Node:
        args, kwargs = (map_arg(each, lambda old: nodes.get(old, old)) for each in (node.args, node.kwargs))
        name = _NUMBER.sub("", node.name)
        new = tracer.graph.create_node(node.op, node.target, args, kwargs, name, node.type)  # type: ignore[arg-type]
        new.meta |= node.meta | {"nn_module_stack": dict(_moved(node.meta["nn_module_stack"], self.path, path))}
        return new

    def is_like(self, other: Recorded) -> bool:
        """Return whether another call, which is alike, has made the nodes that a copy would be, with such results."""
        if len(self.nodes) != len(other.nodes) or self.structure != other.structure:
            return False
        nodes = dict(zip(self.call.nodes, other.call.nodes, strict=True)) | dict(
            zip(self.nodes, other.nodes, strict=True)
        )
        mine = _Told(nodes, (self.path, other.path))
        theirs = _Told({}, (other.path, other.path))
        if any(mine.of(one) != theirs.of(two) for one, two in zip(self.nodes, other.nodes, strict=True)):
            return False
        return [mine.result(each) for each in self.results] == [theirs.result(each) for each in other.results]


class _Told:
    """Descriptions of nodes to compare them by, with other nodes in the place of some, and a block at another path."""

    def __init__(self, nodes: Mapping[Node, Node], paths: tuple[str, str]) -> None:
        self.nodes, self.paths = nodes, paths
        self.places: dict[Any, int] = {}

    def of(self, node: Node) -> Hashable:
        args = map_arg((node.args, node.kwargs), self.node)
        values = [described(each, self.places) or repr(each) for each in pytree.tree_leaves(node.meta["val"])]
        scopes = [*_moved(node.meta["nn_module_stack"], *self.paths)]
        return node.op, node.target, repr(args), str(values), str(scopes), node.meta.get("stack_trace")

    def node(self, node: Node) -> Any:
        """Return the node that stands for another one. Of nodes that compute one size from sizes, any will do."""
        size = described(node.meta["val"], {}) if _is_size(node) else None
        return self.nodes.get(node, node) if size is None else size

    def result(self, result: Result) -> Hashable:
        return result.node and self.node(result.node), result.is_view, result.argument, repr(result.value)


def _require_one_to_one(call: Call) -> None:
    """Raise NotCopiedError where one node stands for two tensors of a call: a copy could not tell them apart."""
    tensors = dict(zip(call.nodes, call.tensors, strict=True))
    if any(tensors[node] is not tensor for node, tensor in zip(call.nodes, call.tensors, strict=True)):
        raise NotCopiedError("two arguments are one in the graph")


def _require_copyable(node: Node, outside: set[int | None]) -> None:
    """Raise NotCopiedError for a node that reads data as numbers, holds a graph, or writes to memory from outside."""
    if REGION in node.meta.get("custom", {}) or "val" not in node.meta:
        raise NotCopiedError("it is part of a region")
    if free_unbacked_symbols(node.meta["val"]) or node.meta.get("unbacked_bindings"):
        raise NotCopiedError("it reads numbers from data")
    if node.op != "call_function" or not (isinstance(node.target, OpOverload) or node.target is operator.getitem):
        if not _is_size(node):
            raise NotCopiedError("it is no operator on tensors")
        return
    if isinstance(node.target, OpOverload):
        for argument, value in _arguments(node, node.target):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for each in pytree.tree_leaves(value):
                    if isinstance(each, Node) and _memory(each.meta["val"]) in outside:
                        raise NotCopiedError("it writes to memory from outside")


def _arguments(node: Node, op: OpOverload) -> Iterator[tuple[Any, Any]]:
    names = [each.name for each in op._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return ((each, given[each.name]) for each in op._schema.arguments if each.name in given)


def _is_size(node: Node) -> bool:
    """Return whether a node computes a number from sizes alone: the graph has it once for each expression."""
    return isinstance(node.meta.get("val"), (*SYMBOLIC, int, float, bool))


def _result(
    leaf: Any, given: Mapping[int, int], own: set[Node], outside: set[int | None], tracer: PythonKeyTracer
) -> Result:
    if not isinstance(leaf, Tensor):
        if isinstance(leaf, SYMBOLIC) or type(leaf) in PLAIN:
            return Result(value=leaf)
        raise NotCopiedError(f"a result is of the type {type(leaf).__name__}")
    if id(leaf) in given:
        return Result(argument=given[id(leaf)])
    slot = get_proxy_slot(leaf, tracer, None)
    node = None if slot is None else slot.proxy.node
    if node is None or node not in own or described(leaf, {}) is None or not is_plain(leaf):
        raise NotCopiedError("a result is no plain tensor of these nodes")
    if not leaf.is_floating_point():
        raise NotCopiedError("more may be known of a result than its sizes")
    if _memory(leaf) in outside:
        raise NotCopiedError("a result is a view of an argument")
    return Result(node=node, is_view=leaf._is_view())


def _mapped(value: Any, change: Callable[[FakeTensor], FakeTensor]) -> Any:
    """Return the value of a node with each of its tensors changed."""
    return change(value) if isinstance(value, FakeTensor) else pytree.tree_map_only(FakeTensor, change, value)


def _memory(value: Any) -> int | None:
    return value.untyped_storage()._cdata if isinstance(value, Tensor) and value.layout is torch.strided else None


def _anew(value: FakeTensor, memory: dict[int | None, Tensor]) -> FakeTensor:
    """Return a fake tensor like another one: in the memory that stands for that one's, else in a new one."""
    mode, of = value.fake_mode, _memory(value)
    unguarded = nullcontext() if mode.shape_env is None else mode.shape_env.suppress_guards()
    with in_kernel_invocation_manager(mode), unguarded:
        if of in memory:
            base = memory[of] if memory[of].dtype == value.dtype else memory[of].view(value.dtype)
            made = base.as_strided(value.shape, value.stride(), value.storage_offset())
        elif type(value.storage_offset()) is int and value.storage_offset() == 0:
            made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
        else:
            size = value.untyped_storage().nbytes() // value.element_size()
            base = torch.empty_strided((size,), (1,), dtype=value.dtype, device="meta")
            made = base.as_strided(value.shape, value.stride(), value.storage_offset())
    new = FakeTensor(mode, made, value.device)
    memory.setdefault(of, new)
    return new


def _moved(scopes: Mapping[str, Any], old: str, new: str) -> Iterator[tuple[str, Any]]:
    """Yield the modules around a node, with those of the block at its other path."""
    for key, (path, kind) in scopes.items():
        yield _at(key, old, new), (_at(path, old, new), kind)


def _at(path: str, old: str, new: str) -> str:
    rest = path.removeprefix(old)
    return new + rest if path.startswith(old) and (not rest or rest[0] in ".@") else path
