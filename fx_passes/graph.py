"""Small operations on FX graphs that every pass needs: places, replacement, bodies, fake values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, TypeGuard
from unittest import mock

import sympy
import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental import _config as shape_config
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_trace
from fxport.fx_passes.broadcasting import broadcasting_unassumed
from fxport.fx_passes.sizes import size_of

LOOPS_BY_DATA = (torch.ops.higher_order.while_loop, torch.ops.higher_order.while_loop_stack_output)
"""Operators that end when their data say so, if ever."""

CAPTURED = "fxport_captured"
"""Key of `node.meta`: the name in the captured graph of the node that this one was made from."""

PART = "fxport_part"
"""Key of `node.meta`, and of an annotation of torch.fx.traceback: which part of a training step a node is of."""

OF_BODY = "_export_root"
"""Path that PyTorch gives the model while it captures the body of a branch or a loop."""

PROVENANCE = ("stack_trace", "nn_module_stack", "torch_fn", "from_node", "custom", CAPTURED, PART)
"""Keys of `node.meta` that say where a node came from; whoever makes a node copies them."""

ORIGIN = "fxport_origin"
"""Key of `node.meta`: the ATen op in the captured graph that a decomposed node came from."""


def place_of(node: Node) -> Place | None:
    """The user's line that a node came from, with its module path and its FX name; None where nothing is known."""
    return place_of_trace(
        node.meta.get("stack_trace") or "",
        module=module_path(node),
        node=node.name,
        captured=node.meta.get(CAPTURED),
        call=operator_name(node),
    )


def module_path(node: Node) -> str | None:
    """Path of the innermost nn.Module that was running, as in `named_modules` ("" is the root)."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    path, _ = list(stack.values())[-1]
    if path == "_empty_nn_module_stack_from_metadata_hook":
        return None
    path = path.removeprefix("L['self'].")
    return path.removeprefix(OF_BODY).removeprefix(".") if f"{path}.".startswith(f"{OF_BODY}.") else path


def operator_name(node: Node) -> str | None:
    """The bare name of what the user called, as far as the trace knows it: "linear", "softmax"."""
    origin = node.meta.get(ORIGIN, node.target)
    if isinstance(origin, torch._ops.OpOverload):
        return origin._schema.name.split("::")[-1]
    return getattr(origin, "__name__", None)


def bodies(gm: GraphModule) -> Iterator[tuple[str, GraphModule]]:
    """The graph modules that nodes of this graph name as control-flow bodies, each once."""
    seen: set[str] = set()
    for node in gm.graph.nodes:
        if node.op == "get_attr" and node.target not in seen:
            seen.add(node.target)
            body = gm.get_submodule(node.target) if _is_module(gm, node.target) else None
            if isinstance(body, GraphModule):
                yield node.target, body


def loops_by_data(gm: GraphModule) -> bool:
    """Return True if the graph, or a body in it, has a loop that ends when its data say so."""
    here = any(is_call(node, *LOOPS_BY_DATA) for node in gm.graph.nodes)
    return here or any(loops_by_data(body) for _, body in bodies(gm))


def _is_module(gm: GraphModule, target: str) -> bool:
    owner: Any = gm
    for part in target.split("."):
        owner = getattr(owner, part, None)
    return isinstance(owner, torch.nn.Module)


def fake(argument: Any) -> Any:
    """The fake value of an argument: nodes by their `meta["val"]`, nested containers likewise, the rest as it is."""
    return map_arg(argument, lambda node: node.meta["val"])


def is_call(node: Any, *targets: Any) -> TypeGuard[Node]:
    """Return True if something among a node's arguments is a call of one of the targets."""
    return isinstance(node, Node) and node.target in targets


def replace(node: Node, by: Node) -> None:
    """All uses of `node` become uses of `by`, and `node` is erased."""
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def call(
    like: Node,
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    val: Any = None,
    graph: Graph | None = None,
) -> Node:
    """A new call before the graph's insertion point, with the provenance of `like`, whose graph it is by default.

    Its fake value is `val`, or what the target returns on the fake arguments. A size that is no constant is an argument
    as a node that gives it.
    """
    if any(isinstance(each, (torch.SymInt, torch.SymFloat)) for each in pytree.tree_leaves((args, kwargs))):
        raise TypeError(f"a size that is no constant is written into a call of {target}")  # it would be the example's
    node = (graph or like.graph).call_function(target, args, kwargs or {})
    node.meta.update({key: like.meta[key] for key in (*PROVENANCE, ORIGIN) if key in like.meta})
    with asked_at(like):
        node.meta["val"] = run_fake(target, args, kwargs or {}) if val is None else val
    return node


def run_fake(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs a target on fake values, in the fake mode that these carry."""
    values, options = fake(args), fake(kwargs)
    with fake_mode_of((values, options)), torch.no_grad():
        return target(*values, **options)


class SizeError(Exception):
    """Something would be decided about a dynamic size, or no node of the graph has it.

    Attributes:
        node: The node that was rewritten, if it is known. Its line is where an export is refused.
        cure: What a user can do about it.
    """

    node: Node | None = None
    cure: ClassVar[str] = (
        "Compute the sizes at the marked line from one another, so that they fit for every size; or do not ask for the "
        "dimensions that they come from to be dynamic."
    )


@contextmanager
def asked_at(node: Node | None) -> Iterator[None]:
    """Give the SizeErrors that are raised inside `node`, if they have none yet."""
    try:
        yield
    except SizeError as error:
        error.node = error.node or node
        raise


@contextmanager
def fake_mode_of(values: Any) -> Iterator[None]:
    """Enters the FakeTensorMode of the first fake tensor among the values, if there is one.

    Raises:
        SizeError: PyTorch decides something about a dynamic size inside (that it is a constant, equal to another one,
            even), for which the captured program is not checked.
    """
    leaves = pytree.tree_leaves(values)
    mode = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, torch._subclasses.FakeTensor)), None)
    if mode is None:
        yield
    else:
        if mode.shape_env is not None:  # PyTorch would look here for the symbols that its last trace has left open
            mode.shape_env.pending_fresh_unbacked_symbols.clear()
        with mode, nullcontext() if mode.shape_env is None else _sizes_kept(mode.shape_env):
            yield


DECIDED = "eval"
"""The note of PyTorch on a guard that it is about to make."""


@contextmanager
def _sizes_kept(env: Any) -> Iterator[None]:
    """Raise SizeError for a decision about a dynamic size, before the environment has learned anything from it."""
    replace, log = env._set_replacement, env._log_guard

    def replaced(symbol: Any, size: Any, *why: Any) -> None:
        if symbol not in env.replacements and not free_unbacked_symbols(symbol):
            raise _made(size)
        replace(symbol, size, *why)

    def logged(prefix: str, guard: Any, forcing_spec: bool) -> None:
        decides = prefix == DECIDED and any(not free_unbacked_symbols(symbol) for symbol in guard.free_symbols)
        if decides and not _is_known(env, guard):
            is_made = isinstance(guard, sympy.Eq) and isinstance(guard.lhs, sympy.Symbol)
            raise _made(guard.rhs) if is_made else SizeError(f"PyTorch computes it in this way only where {guard}")
        log(prefix, guard, forcing_spec)

    oblivious = shape_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]  # made at run time
    has_data = len(env.var_to_range) > len(env.backed_var_to_val)
    with (
        oblivious,  # a size of 1 is none that broadcasts
        mock.patch.object(env, "_set_replacement", replaced),
        mock.patch.object(env, "_log_guard", logged),
        broadcasting_unassumed() if has_data else nullcontext(),
    ):
        yield


def _is_known(env: Any, guard: Any) -> bool:
    """Return whether a condition follows from what has been learned, which PyTorch may have forgotten to look up.

    It remembers by condition that nothing is known, also after a guard has told it.
    """
    env._version_counter += 1  # forgets what it remembers
    return env._maybe_evaluate_static(guard) is sympy.true


def _made(size: Any) -> SizeError:
    words = "the constant" if size.is_number else "equal to"
    return SizeError(f"PyTorch makes a dynamic size {words} {size} in it")


def size_nodes(like: Node, tensor: Node) -> list[int | Node]:
    """The sizes of a tensor as arguments for a new call: ints where static, `sym_size` nodes where symbolic."""
    sizes: list[int | Node] = []
    for dim, size in enumerate(tensor.meta["val"].shape):
        known = size_of(size)
        if isinstance(known, int):
            sizes.append(known)
        else:
            sizes.append(call(like, torch.ops.aten.sym_size.int, (tensor, dim), val=size))
    return sizes
