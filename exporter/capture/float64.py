"""Runs of eager PyTorch in float64 throughout, which the error budget measures from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

WIDER: Mapping[torch.dtype, torch.dtype] = {
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


aten = torch.ops.aten

MOVES = frozenset({aten.embedding.default, aten.index_select.default, aten.index.Tensor, aten.gather.default})
"""Ops that take some of many numbers: what they took is widened, not the whole table before."""


NORMS = frozenset({aten.native_batch_norm.default, aten.cudnn_batch_norm.default, aten.miopen_batch_norm.default})
"""Ops that in training write to their running statistics, which their schemas do not say."""

STATISTICS = ("running_mean", "running_var")


class NotWide(Exception):
    """The model writes to a tensor of its own that is narrower than what it would write."""


class _Widening(TorchDispatchMode):
    """Make ops that are told to give a narrower type give float64; with `operands`, widen what they are fed as well."""

    supports_higher_order_operators = True

    def __init__(self, *, operands: bool) -> None:
        super().__init__()
        self._operands = operands

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            return self._branch(func, *args)
        args, kwargs = pytree.tree_map_only(torch.dtype, lambda dtype: WIDER.get(dtype, dtype), (args, kwargs or {}))
        if not self._operands or func.is_view:  # a view of a weight stays narrow, so that it takes no memory
            return func(*args, **kwargs)
        if any(argument.dtype in WIDER for argument in _written(func, args, kwargs)):
            raise NotWide(str(func))
        if func in MOVES:
            return widened(func(*args, **kwargs))
        return func(*widened(args), **widened(kwargs))

    def _branch(self, func: HigherOrderOperator, *args: Any) -> Any:
        """Run the branch of a torch.cond that its test chooses; other control flow has no run in float64."""
        if func is not torch.ops.higher_order.cond:
            raise NotWide(func.name())
        test, on_true, on_false, operands = args
        with self:
            return (on_true if test else on_false)(*operands)


def _written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an op writes to."""
    if not func._schema.is_mutable and func not in NORMS:
        return []
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | dict(kwargs)
    written = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    written += STATISTICS if func in NORMS and given["training"] else ()
    return [value for name in written if isinstance(value := given.get(name), torch.Tensor)]


def widened(values: Any) -> Any:
    """Return the same with every tensor in float64 that is in a narrower floating-point type."""
    return pytree.tree_map_only(torch.Tensor, lambda each: each.to(WIDER.get(each.dtype, each.dtype)), values)


@contextmanager
def wide_types(*, operands: bool = False) -> Iterator[None]:
    """Make casts of a model to float32, to half precision or into an autocast region casts to float64 instead.

    Without this a norm that computes in float32 would be as inexact in the float64 run as it is in the other. With
    `operands` every op is fed with float64, so that the model itself needs no copy: a weight is widened for as long as
    an op uses it. Raises NotWide where the model writes to a weight or buffer.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening(operands=operands):
            yield
    finally:
        torch.set_default_dtype(default)
