"""Derivatives inside of a model: how a capture sees through them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._functorch import eager_transforms
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from fxport.exporter.capture.forward import replaced_forward
from fxport.fx_passes.graph import bodies

_FUNCTORCH = ("torch._functorch", "torch._C._functorch")


class NotSeenThrough(RuntimeError):
    """A captured graph still has calls that begin and end a vmap or a gradient, which cannot be lowered."""


def require_seen_through(exported: ExportedProgram) -> ExportedProgram:
    """Return the program; raise NotSeenThrough if its graph has calls of functorch's machinery."""
    graphs = [exported.graph_module, *(body for _, body in bodies(exported.graph_module))]
    for node in (node for gm in graphs for node in gm.graph.nodes):
        if node.op == "call_function" and getattr(node.target, "__module__", "").startswith(_FUNCTORCH):
            raise NotSeenThrough(f"the graph still holds the call '{node.target.__name__}' of torch.func")
    return exported


@contextmanager
def forward_mode_by_reverse() -> Iterator[None]:
    """Compute forward-mode derivatives (jvp, jacfwd, hessian) as two reverse-mode ones.

    The results are the same; PyTorch's forward mode makes every dynamic size a constant, and a failure inside of it
    leaves the process with an open level of it.
    """
    with mock.patch.object(eager_transforms, "_jvp_with_argnums", _jvp):
        yield


def _jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, argnums: Any, *, strict: bool = False, has_aux: bool
) -> Any:
    """Replace PyTorch's function: the pullback of the pullback, which is linear, is the pushforward."""
    chosen = primals if argnums is None else eager_transforms._slice_argnums(primals, argnums)

    def inner(*given: Any) -> Any:
        arguments = given if argnums is None else eager_transforms._replace_args(primals, given, argnums)
        return func(*arguments)

    pulled: list[Any] = list(torch.func.vjp(inner, *chosen, has_aux=has_aux))  # two values, or three with `has_aux`
    result, pullback, *aux = pulled
    zeros = pytree.tree_map(torch.zeros_like, result)
    pushforward = torch.func.vjp(pullback, zeros)[1]
    (pushed,) = pushforward(tuple(tangents) if isinstance(tangents, (tuple, list)) else (tangents,))
    return result, pushed, *aux


@contextmanager
def gradients_recorded(module: torch.nn.Module) -> Iterator[None]:
    """Run forward with gradients recorded, as a call of it outside of no_grad does.

    Its parameters ask for theirs there, as they did before the capture: a model may take a step of its own training.
    """
    inner = module.forward
    trainable = {name for name, parameter in module.named_parameters() if parameter.requires_grad}

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        for name, parameter in module.named_parameters():
            if name in trainable:
                parameter.requires_grad_(True)
        with torch.enable_grad():
            return inner(*args, **kwargs)

    with replaced_forward(module, forward):
        yield
