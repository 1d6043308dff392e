"""Indices that are checked before a GPU gets them: its kernels end the use of the device where the CPU raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

Bounds = tuple[Tensor, int, int]
"""Indices, the least that is allowed, and the first above it that is not."""


class IndicesInBounds(TorchDispatchMode):
    """Raise IndexError, as kernels of the CPU do, for indices that are out of bounds.

    A kernel of CUDA has no way to raise. It ends with a device-side assert, after which no other kernel runs in this
    process. Bodies of control flow other than those of torch.cond are not looked into.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.higher_order.cond:
            test, on_true, on_false, operands = args
            with self:
                return (on_true if test else on_false)(*operands)
        if not isinstance(func, HigherOrderOperator) and func.overloadpacket in BOUNDS:
            for indices, least, end in BOUNDS[func.overloadpacket](*args):
                _require(indices, least, end)
        return func(*args, **(kwargs or {}))


def bounds_checked(module: torch.nn.Module, call: Any) -> AbstractContextManager[object]:
    """Return a context for a call of a module that checks indices if one of their tensors is on a GPU."""
    held = (*module.parameters(), *module.buffers(), *pytree.tree_leaves(call))
    on_gpu = any(isinstance(each, Tensor) and each.device.type not in ("cpu", "meta") for each in held)
    return IndicesInBounds() if on_gpu else nullcontext()


def _require(indices: Tensor, least: int, end: int) -> None:
    wrong = indices[(indices < least) | (indices >= end)]
    if wrong.numel():
        raise IndexError(f"index {int(wrong.flatten()[0])} is out of bounds for dimension with size {end}")


def _of_rows(table: Tensor, indices: Tensor, *_: Any) -> Iterator[Bounds]:
    yield indices, 0, table.shape[0]


def _along(x: Tensor, dim: int, index: Tensor, *_: Any) -> Iterator[Bounds]:
    yield index, 0, x.shape[dim] if x.dim() else 1


def _of_axes(x: Tensor, indices: Sequence[Tensor | None], *_: Any) -> Iterator[Bounds]:
    """Masks take as many axes as they have; they bring no bounds."""
    axis = 0
    for index in indices:
        is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        if index is not None and not is_mask:
            yield index, -x.shape[axis], x.shape[axis]
        axis += index.dim() if index is not None and is_mask else 1


def _of_elements(x: Tensor, index: Tensor, *_: Any) -> Iterator[Bounds]:
    yield index, -x.numel(), x.numel()


def _of_classes(
    x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1, ignored: int = -100
) -> Iterator[Bounds]:
    yield target[target != ignored], 0, x.shape[min(1, x.dim() - 1)]


BOUNDS: Mapping[Any, Callable[..., Iterator[Bounds]]] = {
    aten.embedding: _of_rows,
    aten._embedding_bag: _of_rows,
    aten._embedding_bag_forward_only: _of_rows,
    **dict.fromkeys((aten.index_select, aten.gather), _along),
    **dict.fromkeys((aten.index_add, aten.index_add_, aten.index_copy, aten.index_copy_), _along),
    **dict.fromkeys((aten.index_fill, aten.index_fill_), _along),
    **dict.fromkeys((aten.scatter, aten.scatter_, aten.scatter_add, aten.scatter_add_), _along),
    **dict.fromkeys((aten.scatter_reduce, aten.scatter_reduce_), _along),
    **dict.fromkeys((aten.index, aten.index_put, aten.index_put_), _of_axes),
    **dict.fromkeys((aten.take, aten.put, aten.put_), _of_elements),
    **dict.fromkeys((aten.nll_loss_forward, aten.nll_loss2d_forward), _of_classes),
}
"""Operators that read or write at indices, by ATen's names, with the bounds of these."""
