"""The tanh approximation of GELU and its gradient, as models and autograd write them out, in two thirds of the ops."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, is_call
from fxport.fx_passes.passes.fuse_gelu import CUBIC, SQRT_2_OVER_PI, cubic_argument, times

aten = torch.ops.aten

WIDE = (torch.float32, torch.float64)
"""Dtypes in which the shorter form is as exact: halves are rounded after each op, at other places then."""


class Gelu(NamedTuple):
    """The nodes of one GELU: what goes in, what comes out, the gradient by what comes out, and that by what goes in."""

    x: Node
    product: Node
    grad: Node
    by_x: Node


@fx_pass
def shorten_gelu(gm: GraphModule, log: Log) -> bool:
    """By the sigmoid, which is (1 + tanh) / 2 of the half: with u = x² and v = k + 3 c u, the slope is s + y (1 - s) v.

    Given:   %y = mul(mul(%x, 0.5), add(tanh(mul(add(%x, mul(pow(%x, 3), 0.044715)), 0.7978845608)), 1)), and its
             gradient in twelve ops more
    Result:  %u = mul(%x, %x); %s = sigmoid(mul(%x, add(mul(%u, c), k))); %y = mul(%x, %s); …
    """
    found = [
        each for tanh in gm.graph.find_nodes(op="call_function", target=aten.tanh.default) for each in _gelus(tanh)
    ]
    for gelu in found:
        _rewrite(gelu)
    return bool(found)


def _rewrite(gelu: Gelu) -> None:
    x, product, grad, by_x = gelu
    val = product.meta["val"]
    factor = 2 * SQRT_2_OVER_PI

    def made(like: Node, target: Any, *args: Any) -> Node:
        return call(like, target, args, val=val)

    def cubic(like: Node, weight: float) -> Node:
        return made(like, aten.add.Tensor, made(like, aten.mul.Tensor, square, weight * factor * CUBIC), factor)

    with product.graph.inserting_before(product):
        square = made(product, aten.mul.Tensor, x, x)
        share = made(product, aten.sigmoid.default, made(product, aten.mul.Tensor, x, cubic(product, 1.0)))
        y = made(product, aten.mul.Tensor, x, share)
    with product.graph.inserting_before(by_x):
        rest = made(by_x, aten.mul.Tensor, y, made(by_x, aten.rsub.Scalar, share, 1))
        slope = made(by_x, aten.add.Tensor, share, made(by_x, aten.mul.Tensor, rest, cubic(by_x, 3.0)))
        derivative = made(by_x, aten.mul.Tensor, grad, slope)
    product.replace_all_uses_with(y)
    by_x.replace_all_uses_with(derivative)


def _gelus(tanh: Node) -> list[Gelu]:
    """The GELU that a tanh is part of, if it has one gradient and all is of the one form."""
    x = cubic_argument(tanh.args[0])
    if x is None or x.meta["val"].dtype not in WIDE:
        return []
    for plus_one in tanh.users:
        if not is_call(plus_one, aten.add.Tensor) or 1 not in plus_one.args or len(plus_one.users) != 2:
            continue
        for product, by_half in (tuple(plus_one.users), tuple(plus_one.users)[::-1]):
            half, grad = _other(product, plus_one), _other(by_half, plus_one)
            if half is not None and grad is not None and times(half, 0.5) is x:
                by_x = _by_x(by_half, grad, half, tanh, x)
                same = by_x is not None and by_x.meta["val"].shape == product.meta["val"].shape == x.meta["val"].shape
                return [Gelu(x, product, grad, by_x)] if by_x is not None and same else []
    return []


def _by_x(by_half: Node, grad: Node, half: Node, tanh: Node, x: Node) -> Node | None:
    """The sum of both ways by which x comes in: as the factor, and through the tanh."""
    if len(by_half.users) != 1:
        return None
    (through_half,) = by_half.users
    if times(through_half, 0.5) is not by_half or len(through_half.users) != 1:
        return None
    (by_x,) = through_half.users
    through_tanh = _other(by_x, through_half, aten.add.Tensor)
    if not is_call(through_tanh, aten.add.Tensor) or through_tanh.kwargs or by_x.kwargs:
        return None
    for by_sum, by_cube in (through_tanh.args, through_tanh.args[::-1]):
        if _is_by_sum(by_sum, grad, half, tanh) and _is_by_cube(by_cube, by_sum, x):
            return by_x
    return None


def _is_by_sum(node: Any, grad: Node, half: Node, tanh: Node) -> bool:
    """grad * half * (1 - tanh²) * sqrt(2/pi)."""
    inner = times(node, SQRT_2_OVER_PI)
    if not is_call(inner, aten.mul.Tensor):
        return False
    for first, slope in (inner.args, inner.args[::-1]):
        if is_call(slope, aten.rsub.Scalar) and tuple(slope.args[1:]) in ((1,), (1.0,)):
            return _other(slope.args[0], tanh) is tanh and _other(first, grad) is half
    return False


def _is_by_cube(node: Any, by_sum: Any, x: Node) -> bool:
    """by_sum * 0.044715 * 3 * x²."""
    if not is_call(node, aten.mul.Tensor):
        return False
    for scaled, slope in (node.args, node.args[::-1]):
        square = times(slope, 3.0)
        if is_call(square, aten.pow.Tensor_Scalar) and tuple(square.args) == (x, 2):
            return times(scaled, CUBIC) is by_sum
    return False


def _other(node: Any, one: Node, target: Any = aten.mul.Tensor) -> Node | None:
    """The operand of a product, or of a sum, beside the one; None if the node is no such product of nodes."""
    if not is_call(node, target) or one not in node.args or len(node.args) != 2:
        return None
    first, second = node.args
    other = second if first is one else first
    return other if isinstance(other, Node) else None
