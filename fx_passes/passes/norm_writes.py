"""Normalizations that update running statistics although their schema does not say so."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from fxport.fx_passes.graph import call

aten = torch.ops.aten


def statistics(node: Node) -> list[Node]:
    """The running mean and variance where these are updated: `(input, weight, bias, mean, var, training, …)`."""
    return [stat for stat in node.args[3:5] if isinstance(stat, Node)] if node.args[5] is True else []


def filled_statistics(node: Node) -> list[Node]:
    """Likewise of `batch_norm`, which learns nothing from an input that is known to have no elements."""
    sizes = node.args[0].meta["val"].shape  # type: ignore[union-attr]  # a node
    return [] if any(type(size) is int and size == 0 for size in sizes) else statistics(node)


def batch_norm(node: Node) -> tuple[Node, ...]:
    """`batch_norm` has the normalized input as its result, which is the first of its functional form."""
    whole, new = _functional(node)
    val = node.meta["val"]
    node.replace_all_uses_with(call(node, operator.getitem, (whole, 0), val=val))
    return new


def native_batch_norm(node: Node) -> tuple[Node, ...]:
    """`native_batch_norm` has the first three results of its functional form."""
    whole, new = _functional(node)
    node.replace_all_uses_with(whole)
    return new


def _functional(node: Node) -> tuple[Node, tuple[Node, ...]]:
    x, weight, bias, mean, var, _, momentum, eps = node.args[:8]
    arguments = (x, weight, bias, mean, var, True, momentum, eps)
    whole = call(node, aten._native_batch_norm_legit_functional.default, arguments)
    new = (call(node, operator.getitem, (whole, i), val=whole.meta["val"][i]) for i in (3, 4))
    return whole, tuple(_like(node, value, old) for value, old in zip(new, (mean, var), strict=True))


def instance_norm(node: Node) -> tuple[Node, ...]:
    """The statistics take the mean over the batch of those of each instance; the variance counts as unbiased."""
    x, weight, bias, mean, var, _, momentum, eps, *rest = node.args
    spatial = list(range(2, x.meta["val"].dim()))  # type: ignore[union-attr]  # the input is a node
    normalized = call(
        node, node.target, (x, weight, bias, None, None, True, momentum, eps, *rest), val=node.meta["val"]
    )
    node.replace_all_uses_with(normalized)
    means = call(node, aten.mean.dim, (x, [0, *spatial]))
    variances = call(node, aten.mean.dim, (call(node, aten.var.correction, (x, spatial), {"correction": 1}), [0]))
    return tuple(_like(node, _blend(node, old, new, momentum), old) for old, new in ((mean, means), (var, variances)))


def _blend(node: Node, old: object, new: Node, momentum: object) -> Node:
    kept = call(node, aten.mul.Scalar, (old, 1 - momentum))  # type: ignore[operator]  # a number
    return call(node, aten.add.Tensor, (kept, call(node, aten.mul.Scalar, (new, momentum))))


def _like(node: Node, value: Node, old: object) -> Node:
    """`value` in the dtype of the buffer that it replaces."""
    assert isinstance(old, Node)
    dtype = old.meta["val"].dtype
    return value if value.meta["val"].dtype == dtype else call(node, aten._to_copy.default, (value,), {"dtype": dtype})
