"""Gradients of branches and of loops, where what PyTorch makes of them is an error, or lacks something in silence."""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.fx import GraphModule

from fxport.diagnostics import Place
from fxport.diagnostics.source import place_of_stack
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.faults import RefusedError

OPERATORS = ("cond.CondAutogradOp", "map.MapAutogradOp", "scan.ScanAutogradOp", "while_loop.WhileLoopAutogradOp")
"""The autograd.Function of each operator of control flow, below `torch._higher_order_ops`."""

NODES = frozenset(f"{name.partition('.')[2]}Backward" for name in OPERATORS)
"""Names of the nodes of these in autograd's graph."""

TWICE = (
    "it differentiates a branch or a loop twice, and the gradient that PyTorch makes of one lacks terms that need it"
)
BY_OPERATIONS = (
    "Choose by torch.where in the place of `if`, compute on whole tensors in the place of a loop, or leave out "
    "create_graph."
)

COUNTED = (
    "it is differentiated, and PyTorch keeps no number of a turn for that, such as the place of a row: loop by `while` "
    "with a tensor that counts, or by torch's `map` or `scan` over the rows"
)

COMPILED = "torch.compile is ignored when called inside torch.export region"
"""PyTorch's warning about a copy that it makes of a body."""

OPERANDS = "operands_of_body"

WAYS = ("_true_bw_fn", "_false_bw_fn")
"""The attributes by which a cond keeps the gradients of its branches."""

GRADIENTS = "fxport_gradients"
"""The attribute of a branch's graph that has its gradients, where autograd has made them already."""


def set_gradients(branch: GraphModule, gradients: GraphModule, operands: int) -> None:
    """Let the gradient of a branch be this graph, of so many operands and the gradients of the results."""

    def run(*args: Any) -> Any:
        return gradients(*args[:operands], *(each.contiguous() for each in args[operands:]))

    vars(branch)[GRADIENTS] = run


class _Once(torch.autograd.Function):
    """Pass a gradient on that must not be differentiated, by whatever it depends on."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, place: Place | None, *_: Tensor) -> Tensor:
        ctx.place = place
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RefusedError(TWICE, place=ctx.place, cure=BY_OPERATIONS)


@contextmanager
def body_gradients() -> Iterator[None]:
    """During the block, gradients of branches have strides that can be merged, and none is differentiated again.

    PyTorch saves what a body computes without its history, so that a second derivative lacks what comes through it.
    """
    with ExitStack() as entered:
        entered.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", COMPILED, UserWarning)
        for name in OPERATORS:
            module, _, kind = name.partition(".")
            owner = getattr(importlib.import_module(f"torch._higher_order_ops.{module}"), kind)
            instead = mock.patch.multiple(
                owner, forward=staticmethod(_noted(owner.forward)), backward=staticmethod(_once(owner.backward))
            )
            entered.enter_context(instead)
        yield


def _noted(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which also keeps what it is differentiated by."""

    def run(ctx: Any, *args: Any) -> Any:
        if any(map(_keeps_numbers, args[:1])):
            raise LoopError(COUNTED)
        setattr(ctx, OPERANDS, [each for each in args if isinstance(each, Tensor) and each.requires_grad])
        results = forward(ctx, *args)
        for name, branch in zip(WAYS, args[1:], strict=False):
            if isinstance(branch, GraphModule) and GRADIENTS in vars(branch):
                setattr(ctx, name, vars(branch)[GRADIENTS])
        return results

    return run


def _keeps_numbers(body: Any) -> bool:
    """Return True for the body of a scan whose gradient wants a number that each turn makes."""
    forward = getattr(body, "fw_gm", None)
    if not isinstance(forward, GraphModule):
        return False
    results: Any = forward.graph.output_node().args[0]  # a tuple of nodes
    kept = results[body.n_fw_outputs :]
    return any(each.op != "placeholder" and not isinstance(each.meta.get("val"), Tensor) for each in kept)


def _once(backward: Callable[..., Any]) -> Callable[..., Any]:
    def run(ctx: Any, *grads: Any) -> Any:
        for name in WAYS:
            if hasattr(ctx, name):
                setattr(ctx, name, _contiguous(getattr(ctx, name)))
        found = backward(ctx, *grads)
        if not torch.is_grad_enabled():
            return found
        place = place_of_stack(traceback.walk_stack(sys._getframe()))
        reached = (*getattr(ctx, OPERANDS), *(each for each in grads if isinstance(each, Tensor)))
        return tuple(_Once.apply(each, place, *reached) if _is_differentiable(each) else each for each in found)

    return run


def _contiguous(gradients: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function whose results all have the strides of their shapes: that of a sum has strides of 0."""

    def plain(*args: Any) -> Any:
        return [each.contiguous() if isinstance(each, Tensor) else each for each in gradients(*args)]

    return plain


def _is_differentiable(gradient: Any) -> bool:
    return isinstance(gradient, Tensor) and gradient.dtype.is_floating_point
