"""Decomposition of only those nodes that have no lowering, one by one, on their own fake inputs.

The whole graph is never traced again: that would cost more than the capture did, and grows faster than the model.
Private PyTorch API is used here for the tables of decompositions and to ask which ops PyTorch itself composes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor, _meta_registrations
from torch._decomp import core_aten_decompositions, decomposition_table
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2_dense
from torch._higher_order_ops.out_dtype import out_dtype_fallback
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log
from fxport.diagnostics.messages import error_line
from fxport.fx_passes.base import write_dump
from fxport.fx_passes.decompositions import RULES
from fxport.fx_passes.graph import ORIGIN, PROVENANCE, SizeError, asked_at, bodies, fake, fake_mode_of
from fxport.fx_passes.passes.custom_writes import called_op
from fxport.fx_passes.passes.functionalize import functionalize, unsupported
from fxport.fx_passes.python_ops import python_of, python_ops
from fxport.fx_passes.regions import Call, note_region
from fxport.fx_passes.traces import Traces

hop = torch.ops.higher_order

REFUSED = "fxport_refused"
"""Key of `node.meta`: why PyTorch's decomposition of the node failed."""

SIZE_DECIDED = "fxport_size_decided"
"""Key of `node.meta`: what that decomposition would decide about a dynamic size, if this is why."""


def decompose(
    gm: GraphModule,
    keep: Collection[Any],
    dump: Path | None = None,
    only: Callable[[Node], bool] = lambda node: True,
    traces: Traces | None = None,
) -> None:
    """Replaces every node whose target is not in `keep` by what PyTorch decomposes it to, as far as it does.

    What decomposes neither by table nor by composition stays; so do calls that are not ATen-like ops, and nodes for
    which `only` does not hold. `traces` has the decompositions with the same `keep` that were traced before.
    """
    _decompose(gm, frozenset(keep), only, traces or Traces())  # a dict has the hashes of its keys
    if dump is not None:
        gm.recompile()
        write_dump(gm, dump / "decompose.fx.py")


def _decompose(gm: GraphModule, keep: frozenset[Any], only: Callable[[Node], bool], traces: Traces) -> None:
    for _, body in bodies(gm):
        _decompose(body, keep, only, traces)
    changed = False
    for node in gm.graph.find_nodes(op="call_function", target=hop.auto_functionalized_v2):
        changed |= _expand(
            node, auto_functionalized_v2_dense, keep, traces
        )  # first: it leaves a custom op's call on copies
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and called_op(node) not in keep and _holds_tensors(node) and only(node):
            rule = decomposition_of(node.target) or python_of(node)
            if rule is not None:
                changed |= _expand(node, rule, keep, traces)
    if changed:
        gm.graph.eliminate_dead_code()
        gm.graph.lint()


def _holds_tensors(node: Node) -> bool:
    """Nodes on sizes alone are no business of decomposition: their values are known as expressions."""
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(node.meta.get("val")))


@contextmanager
def _transforms_laid_out() -> Iterator[None]:
    """During the block, the fake of a Fourier transform is contiguous.

    PyTorch gives it the strides of its kernels, for which it asks about sizes and, at some, fails. No operator of a
    functional graph depends on them.
    """

    def laid_out(result: Tensor, x: Tensor, sizes: Sequence[Any], *args: Any, **kwargs: Any) -> Tensor:
        return result.new_empty(tuple(sizes))

    with mock.patch.object(_meta_registrations, "_exec_fft", laid_out):
        yield


@cache
def _tables() -> Mapping[Any, Callable[..., Any]]:
    """Core ATen ops end a decomposition: beyond them there are only prims, which say less about the same thing."""
    deeper = {op: rule for op, rule in decomposition_table.items() if torch.Tag.core not in getattr(op, "tags", ())}
    return {**deeper, **core_aten_decompositions()}


@lru_cache(maxsize=4)
def _tables_without(keep: frozenset[Any]) -> Mapping[Any, Callable[..., Any]]:
    return {op: rule for op, rule in _tables().items() if op not in keep}


def known_decompositions() -> frozenset[Any]:
    """Return the ops that PyTorch's tables decompose: with these kept, only composite ops are taken apart."""
    return frozenset(_tables())


def decomposition_of(target: Any) -> Callable[..., Any] | None:
    """The decomposition of an op: our own, from PyTorch's tables, or its composite implementation; None if none is."""
    if target is hop.out_dtype:
        return out_dtype_fallback
    if not isinstance(target, OpOverload):
        return None
    if str(target) in RULES:
        return RULES[str(target)]
    if target in _tables():
        return _tables()[target]
    if target._can_decompose():
        return target.decompose
    return None


def _expand(node: Node, rule: Callable[..., Any], keep: frozenset[Any], traces: Traces) -> bool:
    """Traces one node's decomposition and puts it in the node's place. Returns whether there was one to put."""
    try:
        inner, of_another = traces.of(node, lambda: _trace(node, rule, keep))
    except Exception as error:  # noqa: BLE001  # PyTorch's rule may raise anything; lowering reports the node with it
        node.meta[REFUSED] = error_line(error)
        if isinstance(error, SizeError):
            node.meta[SIZE_DECIDED] = str(error)
        return False
    if inner is None:
        return False
    leaves, _ = pytree.tree_flatten((node.args, node.kwargs))
    sources = [leaf for leaf in leaves if isinstance(leaf, Node)]
    values: dict[Node, Any] = dict(zip(inner.graph.find_nodes(op="placeholder"), sources, strict=True))
    graph = node.graph
    origin = node.meta.get(ORIGIN, called_op(node))
    region = _region_of(node)
    known = [each.meta["val"] for each in (*sources, node)]  # the node's own, where its sources are sizes alone
    fakes = fake_mode_of(known) if of_another else nullcontext()
    with asked_at(node), graph.inserting_before(node), fakes, torch.no_grad(), _transforms_laid_out():
        for each in inner.graph.nodes:
            if each.op == "get_attr":
                values[each] = _adopt(graph.owning_module, inner, each, graph)
            elif each.op == "call_function":
                copy = graph.node_copy(each, lambda n: values[n])
                copy.meta = {key: node.meta[key] for key in PROVENANCE if key in node.meta}
                copy.meta["val"] = _value(copy) if of_another else each.meta.get("val")
                copy.meta[ORIGIN] = origin
                if region is not None:
                    note_region(copy, region)
                values[each] = copy
    result = map_arg(inner.graph.output_node().args[0], lambda n: values[n])
    _replace_by(node, result)
    return True


def _value(node: Node) -> Any:
    """The fake value of a call, in the fake mode that is on."""
    return node.target(*fake(node.args), **fake(node.kwargs))  # type: ignore[operator]  # of a call_function


def _region_of(node: Node) -> Call | None:
    """A call of a custom operator is one of a region of its name, which becomes a function of its own domain.

    PyTorch registers some operators of its own in the same way; those have a decomposition.
    """
    if decomposition_of(node.target) is not None or python_of(node) is None:
        return None
    number = list(node.graph.nodes).index(node)
    return Call(called_op(node)._schema.name, number, node.meta.get("stack_trace") or "")


def _as_plain(arguments: Any) -> Any:
    """Lists and tuples as Python's own: a rule may change the lists that FX holds, which are immutable."""
    if isinstance(arguments, tuple):
        return tuple(_as_plain(each) for each in arguments)
    if isinstance(arguments, dict):
        return {name: _as_plain(each) for name, each in arguments.items()}
    return [_as_plain(each) for each in arguments] if isinstance(arguments, list) else arguments


def _adopt(owner: Any, inner: GraphModule, node: Node, graph: torch.fx.Graph) -> Node:
    """A tensor or a body that the decomposition made becomes an attribute of the graph around it."""
    name, number = str(node.target), 0
    while hasattr(owner, name):
        number += 1
        name = f"{node.target}_{number}"
    setattr(owner, name, operator.attrgetter(str(node.target))(inner))
    copy = graph.get_attr(name)
    copy.meta.update(node.meta)
    return copy


def _replace_by(node: Node, result: Any) -> None:
    """`result` mirrors the structure of the node's value: a node, or sequences of nodes taken apart by getitem."""
    if isinstance(result, Node):
        _keep_unknown_sizes(node, result)
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            _replace_by(user, result[user.args[1]])  # type: ignore[index]  # a getitem
    node.graph.erase_node(node)


def _keep_unknown_sizes(node: Node, result: Node) -> None:
    """Give a result the value of the node whose place it takes, if a size that data decide has a new symbol in it.

    Other nodes speak of that size by the symbol that the capture gave it.
    """
    old, new = node.meta.get("val"), result.meta.get("val")
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor):
        return
    unknown = free_unbacked_symbols(old) - free_unbacked_symbols(new)
    if unknown and (old.dtype, old.dim()) == (new.dtype, new.dim()):
        result.meta["val"] = old


def _trace(node: Node, rule: Callable[..., Any], keep: frozenset[Any]) -> GraphModule | None:
    """The decomposition of one node as a graph over its tensor and symbolic arguments; None if the rule declines.

    A rule may also write in place, since it is written for eager PyTorch; that is made values, or declined.
    """
    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Node)]
    inputs = [leaves[i].meta["val"] for i in positions]
    declined, target = False, cast(OpOverload, node.target)

    def run(*values: Any) -> Any:
        nonlocal declined
        filled = list(leaves)
        for position, value in zip(positions, values, strict=True):
            filled[position] = value
        args, kwargs = _as_plain(pytree.tree_unflatten(filled, spec))
        result = rule(*args, **kwargs)
        declined = result is NotImplemented
        return target(*args, **kwargs) if declined else _as_plain(result)  # FX would record a named tuple as a call

    table = {**_tables_without(keep), **python_ops(keep)}
    with fake_mode_of((inputs, node.meta["val"])), torch.no_grad(), _transforms_laid_out():
        inner = make_fx(run, decomposition_table=table, tracing_mode="real", _allow_non_fake_inputs=True)(*inputs)
    if declined or unsupported(inner):
        return None
    functionalize(inner, Log())
    inner.graph.eliminate_dead_code()
    return inner
