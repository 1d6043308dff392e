"""Custom operators that are written in Python: what they compute, as far as PyTorch can trace it.

Private PyTorch API is used here for the table of `torch.library.custom_op`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch._library.utils import lookup_op
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from fxport.fx_passes.passes.custom_writes import called_op, is_written
from fxport.fx_passes.sizes import same_sizes

OURS = "fxport"
"""Namespace of our own ops, whose Python runs kernels that have no other form."""


class OtherSizes(Exception):
    """The Python of an operator gives results of other sizes than its fake kernel says."""


def python_ops(keep: Collection[Any]) -> dict[OpOverload, Callable[..., Any]]:
    """Operators that write to nothing, with their Python, but for those to keep."""
    found = {lookup_op(name): definition for name, definition in OPDEFS.items()}
    return {
        op: definition._init_fn
        for op, definition in found.items()
        if op not in keep and op.namespace != OURS and not op._schema.is_mutable
    }


def python_of(node: Node) -> Callable[..., Any] | None:
    """Return a Python function that computes a call of a custom operator from its arguments; None for other calls."""
    op = called_op(node)
    definition = OPDEFS.get(op._schema.name) if isinstance(op, OpOverload) else None
    if definition is None or op.namespace == OURS:
        return None
    run = definition._init_fn if op is node.target else _on_copies(op, definition._init_fn)

    def checked(*args: Any, **kwargs: Any) -> Any:
        result = run(*args, **kwargs)
        pairs = zip(pytree.tree_leaves(result), pytree.tree_leaves(node.meta["val"]), strict=True)
        for value, known in pairs:
            if isinstance(known, torch.Tensor) and not same_sizes(value, known):
                raise OtherSizes(f"{list(value.shape)}, where its fake kernel says {list(known.shape)}")
        return result

    return checked


def _on_copies(op: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that writes to its arguments as `auto_functionalized` calls it: new values behind its results."""
    written = [argument.name for argument in op._schema.arguments if is_written(argument)]

    def run(_: OpOverload, **given: Any) -> tuple[Any, ...]:
        copies = {name: given[name].clone() for name in written if given.get(name) is not None}
        result = function(**{**given, **copies})
        returned = result if isinstance(result, (tuple, list)) else (result,)
        return (*returned, *(copies.get(name) for name in written))

    return run
