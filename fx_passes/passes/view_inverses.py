"""For each view op: given the new value of the view, the new value of what it looks at."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.fx_passes.graph import call, fake, size_nodes
from fxport.fx_passes.sizes import size_of

aten = torch.ops.aten

Inverse = Callable[[Node, Node, Node, Node], Node]
"""(view op, view, parent's present value, view's new value) → parent's new value."""


def _identity(op: Node, view: Node, parent: Node, value: Node) -> Node:
    return value


def _reshape(op: Node, view: Node, parent: Node, value: Node) -> Node:
    return call(op, aten.reshape.default, (value, size_nodes(op, parent)), val=parent.meta["val"])


def _same(op: Node, view: Node, parent: Node, value: Node) -> Node:
    """Ops that are their own inverse, as transpose is."""
    return call(op, op.target, (value, *op.args[1:]), val=parent.meta["val"])


def _permute(op: Node, view: Node, parent: Node, value: Node) -> Node:
    order: Any = op.args[1]
    rank = len(order)
    back = sorted(range(rank), key=lambda i: order[i] % rank)
    return call(op, aten.permute.default, (value, back), val=parent.meta["val"])


def _scatter(target: Any) -> Inverse:
    """`select`, `slice` and the like have a scatter with the same further arguments."""

    def inverse(op: Node, view: Node, parent: Node, value: Node) -> Node:
        return call(op, target, (parent, value, *op.args[1:]), dict(op.kwargs), val=parent.meta["val"])

    return inverse


def _narrow(op: Node, view: Node, parent: Node, value: Node) -> Node:
    dim, start, length = op.args[1:]
    end = _plus(op, start, length)  # type: ignore[arg-type]  # sizes
    return call(op, aten.slice_scatter.default, (parent, value, dim, start, end), val=parent.meta["val"])


def is_invertible(op: Node) -> bool:
    """Return whether the new value of what a view looks at can be made of that of the view."""
    if op.target is aten.narrow.default:
        return statically_known_true(fake(op.args[2]) >= 0)  # else counted from the end, perhaps
    return op.target in INVERSES


def _unbind(op: Node, view: Node, parent: Node, value: Node) -> Node:
    dim = op.args[1] if len(op.args) > 1 else op.kwargs.get("dim", 0)
    return call(op, aten.select_scatter.default, (parent, value, dim, view.args[1]), val=parent.meta["val"])


def _split(op: Node, view: Node, parent: Node, value: Node) -> Node:
    """The pieces before this one say where it starts; a last piece may be smaller than the others."""
    dim: Any = op.args[2] if len(op.args) > 2 else op.kwargs.get("dim", 0)
    index: Any = view.args[1]
    pieces = op.meta["val"]
    index %= len(pieces)
    start: Any = 0
    for i in range(index):
        piece = call(op, operator.getitem, (op, i), val=pieces[i])
        start = _plus(op, start, size_nodes(op, piece)[dim])
    end = _plus(op, start, size_nodes(op, view)[dim])
    return call(op, aten.slice_scatter.default, (parent, value, dim, start, end), val=parent.meta["val"])


def _plus(op: Node, size: int | Node, other: int | Node) -> int | Node:
    if isinstance(size, Node) or isinstance(other, Node):
        return call(op, operator.add, (size, other), val=fake(size) + fake(other))
    return size + other


def _expand(op: Node, view: Node, parent: Node, value: Node) -> Node:
    """PyTorch refuses to write where several elements share a place, so only new leading axes of size 1 remain."""
    return _reshape(op, view, parent, value)


def overlaps(op: Node) -> bool:
    """Tell whether several elements of a view may lie in one place, so that a write to one changes others.

    What a view looks at cannot be told from the new values of the view then.
    """
    if op.target in (aten.expand.default, aten.expand_as.default):
        wide, narrow = ([size_of(size) for size in each.meta["val"].shape] for each in (op, op.args[0]))  # type: ignore[union-attr]
        return any(
            size not in (1, old)
            for size, old in zip(reversed(wide), [*reversed(narrow), *[1] * len(wide)], strict=False)
        )
    if op.target is aten.as_strided.default:
        sizes, strides = ([size_of(fake(each)) for each in op.args[place]] for place in (1, 2))  # type: ignore[union-attr]
        if not all(isinstance(each, int) for each in (*sizes, *strides)):
            return True
        end = 0  # the last place that the axes with smaller steps reach
        for stride, size in sorted(zip(strides, sizes, strict=True)):
            if size > 1 and stride <= end:
                return True
            end += (size - 1) * stride
    return False


INVERSES: Mapping[Any, Inverse] = {
    aten.alias.default: _identity,
    aten.contiguous.default: _identity,
    aten.detach.default: _identity,
    aten.lift_fresh.default: _identity,
    aten.to.device: _identity,
    aten.to.dtype: _identity,
    aten.to.dtype_layout: _identity,
    aten.to.other: _identity,
    aten.type_as.default: _identity,
    aten._reshape_alias.default: _reshape,
    aten._unsafe_view.default: _reshape,
    aten.flatten.using_ints: _reshape,
    aten.ravel.default: _reshape,
    aten.reshape.default: _reshape,
    aten.squeeze.default: _reshape,
    aten.squeeze.dim: _reshape,
    aten.squeeze.dims: _reshape,
    aten.unflatten.int: _reshape,
    aten.unsqueeze.default: _reshape,
    aten.view.default: _reshape,
    aten.view_as.default: _reshape,
    aten.expand.default: _expand,
    aten.expand_as.default: _expand,
    aten.adjoint.default: _same,
    aten.mH.default: _same,
    aten.mT.default: _same,
    aten.numpy_T.default: _same,
    aten.swapaxes.default: _same,
    aten.swapdims.default: _same,
    aten.t.default: _same,
    aten.transpose.int: _same,
    aten.permute.default: _permute,
    aten.diagonal.default: _scatter(aten.diagonal_scatter.default),
    aten.narrow.default: _narrow,
    aten.select.int: _scatter(aten.select_scatter.default),
    aten.slice.Tensor: _scatter(aten.slice_scatter.default),
    aten.as_strided.default: _scatter(aten.as_strided_scatter.default),
    aten.chunk.default: _split,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.unbind.int: _unbind,
    aten.view_as_complex.default: lambda op, view, parent, value: call(op, aten.view_as_real.default, (value,)),
    aten.view_as_real.default: lambda op, view, parent, value: call(op, aten.view_as_complex.default, (value,)),
}
