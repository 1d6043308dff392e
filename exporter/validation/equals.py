"""Choice among equal elements, of which PyTorch leaves open which one `topk`, `sort`, `kthvalue`, `median` and `mode`
take: its kernels take another one at other sizes. Runs of eager PyTorch in which it is the first, or the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from fxport.fx_passes.program import Program

aten = torch.ops.aten

Pair = tuple[Tensor, Tensor]


def _ordered(x: Tensor, dim: int, descending: bool, last: bool) -> Pair:
    """Sort so that of equal elements the first one comes first, or the last one."""
    if not last:
        return torch.sort(x, stable=True, dim=dim, descending=descending)
    values, places = torch.sort(x.flip(dim), stable=True, dim=dim, descending=descending)
    return values, x.shape[dim] - 1 - places


def _topk(last: bool, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Pair:
    values, places = _ordered(x, dim, largest, last)
    return values.narrow(dim, 0, k), places.narrow(dim, 0, k)


def _sort(last: bool, x: Tensor, dim: int = -1, descending: bool = False) -> Pair:
    return _ordered(x, dim, descending, last)


def _sort_stable(last: bool, x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Pair:
    return _ordered(x, dim, descending, last and not stable)


def _kthvalue(last: bool, x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Pair:
    return _at(*_ordered(x, dim, False, last), torch.tensor(k - 1), dim, keepdim)


def _median(last: bool, x: Tensor, dim: int, keepdim: bool = False, *, over_nan: bool = False) -> Pair:
    """The lower of the two middle elements. NaN is the greatest: the first one is the median, or none is counted."""
    numbers = x.isnan().logical_not().sum(dim, keepdim=True)
    length = x.shape[dim]
    if over_nan:
        numbers = (numbers - 1).clamp(min=0) // 2
    place = numbers if over_nan else torch.where(numbers == length, (length - 1) // 2, numbers)
    return _at(*_ordered(x, dim, False, last), place, dim, keepdim)


def _mode(last: bool, x: Tensor, dim: int = -1, keepdim: bool = False) -> Pair:
    """PyTorch leaves open the place of the value: here the one that its kernel and ours take, or the first."""
    values = aten.mode.default(x, dim, True)[0]
    same = (x == values) | (x.isnan() & values.isnan())
    count = torch.arange(x.shape[dim], device=x.device).reshape(
        [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    )
    places = torch.where(same, count, x.shape[dim] if last else -1)
    places = places.amin(dim, keepdim=True) if last else places.amax(dim, keepdim=True)
    return _kept(values, places, dim, keepdim)


def _at(values: Tensor, places: Tensor, place: Tensor, dim: int, keepdim: bool) -> Pair:
    if place.dim() == 0:
        shape = list(values.shape)
        shape[dim] = 1
        place = place.expand(shape)
    return _kept(values.gather(dim, place), places.gather(dim, place), dim, keepdim)


def _kept(values: Tensor, places: Tensor, dim: int, keepdim: bool) -> Pair:
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


CHOOSING: Mapping[Any, Callable[..., Pair]] = {
    aten.topk.default: _topk,
    aten.sort.default: _sort,
    aten.sort.stable: _sort_stable,
    aten.kthvalue.default: _kthvalue,
    aten.median.dim: _median,
    aten.nanmedian.dim: partial(_median, over_nan=True),
    aten.mode.default: _mode,
}
"""Operators that choose, with what gives one of the results that their schemas allow. `argmax` and `max.dim` are not
among them: they give the first of equals, by their documentation."""


class AmongEquals(TorchDispatchMode):
    """Make operators that choose among equal elements take the first, as ONNX's TopK does, or the last."""

    supports_higher_order_operators = True

    def __init__(self, *, last: bool = False) -> None:
        super().__init__()
        self._last = last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.higher_order.cond:
            test, on_true, on_false, operands = args
            with self:
                return (on_true if test else on_false)(*operands)
        chosen = CHOOSING.get(func)
        if chosen is None or not args[0].dim():
            return func(*args, **(kwargs or {}))
        return chosen(self._last, *args, **(kwargs or {}))


EQUALS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "any": nullcontext,
    "the first": AmongEquals,
    "the last": partial(AmongEquals, last=True),
}
"""By which of equals is taken, a context for runs in which that is so."""
OWN, FIRST, _ = EQUALS

UNSETTLED = ("eig", "svd", "qr", "lu_", "ldl", "lstsq", "pinv", "linalg_inv", "linalg_solve", "_det", "slogdet")
"""Parts of the names of decompositions: bases of equal eigenvalues and of what is singular are open, too."""


def chooses(program: Program) -> bool:
    """Return True if an operator of the captured graph, or of a branch in it, chooses among equals."""
    return any(node.target in CHOOSING for node in _nodes(program))


def is_settled(program: Program) -> bool:
    """Return True if results are settled, also of equal elements, but for the choices of `CHOOSING`.

    A decomposition leaves more open. Of loops and scans, what their bodies choose is not seen by `AmongEquals`.
    """
    targets = [node.target for node in _nodes(program)]
    names = [target._schema.name for target in targets if isinstance(target, torch._ops.OpOverload)]
    if any(part in name for name in names for part in UNSETTLED):
        return False
    loops = (t for t in targets if isinstance(t, HigherOrderOperator) and t is not torch.ops.higher_order.cond)
    return not (chooses(program) and any(loops))


def _nodes(program: Program) -> Iterator[torch.fx.Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from module.graph.nodes
