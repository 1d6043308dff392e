"""Indices checked before a kernel gets them: a GPU's ends the use of the device, some of the CPU write anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
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


class UncheckedInBounds(TorchFunctionMode):
    """Raise IndexError for indices that kernels of the CPU read or write at without looking at their bounds.

    On values of ours they would end the process, or give numbers from elsewhere in memory.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        bounds = UNCHECKED.get(func)
        for indices, least, end in bounds(*args, **kwargs) if bounds is not None else ():
            _require(indices, least, end)
        return func(*args, **kwargs)


def bounds_checked(module: torch.nn.Module, call: Any) -> AbstractContextManager[object]:
    """Return a context for a call of a module that checks indices: all of them if one of the tensors is on a GPU."""
    held = (*module.parameters(), *module.buffers(), *pytree.tree_leaves(call))
    on_gpu = any(isinstance(each, Tensor) and each.device.type not in ("cpu", "meta") for each in held)
    return IndicesInBounds() if on_gpu else UncheckedInBounds()


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


def _of_sorted_rows(input: Tensor, size: int, **_: Any) -> Iterator[Bounds]:
    yield input, 0, size


def _of_row_starts(crow_indices: Tensor, col_indices: Tensor, **_: Any) -> Iterator[Bounds]:
    yield crow_indices, 0, col_indices.numel() + 1


def _of_labels(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, *_: Any, **__: Any
) -> Iterator[Bounds]:
    """Bounds of all labels but those behind the length of a target, which are not read."""
    lengths = torch.as_tensor(target_lengths, device=targets.device)
    if targets.dim() == 2:
        targets = targets[torch.arange(targets.shape[1], device=targets.device) < lengths.reshape(-1, 1)]
    elif lengths.dim():
        targets = targets[: int(lengths.sum())]
    yield targets, 0, log_probs.shape[-1]


UNCHECKED: Mapping[Any, Callable[..., Iterator[Bounds]]] = {
    torch._convert_indices_from_coo_to_csr: _of_sorted_rows,  # pyright: ignore[reportPrivateImportUsage]
    torch._convert_indices_from_csr_to_coo: _of_row_starts,  # pyright: ignore[reportPrivateImportUsage]
    torch.ctc_loss: _of_labels,
}
"""Functions of PyTorch whose kernels on the CPU do not check their indices, with the bounds of these."""
