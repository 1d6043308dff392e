"""Fakes of views that PyTorch remembers, made in one step each, those of `_unsafe_view` among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

aten = torch.ops.aten


STANDING: Mapping[Any, Any] = {
    aten._unsafe_view.default: aten.view.default,
    aten.item.default: aten._local_scalar_dense.default,
}
"""Operators that stand for others where PyTorch makes fakes of results.

A graph above autograd has `item`; where it is run again on fakes, as the branches of a loop's body are, PyTorch makes a
plain number of a tensor with symbolic sizes nearby, which a fake does not have.
"""


@contextmanager
def views_remembered() -> Iterator[None]:
    """Make the fake of a view, when PyTorch knows its sizes from another one, by `as_strided`.

    PyTorch makes a tensor of its own, and gives it the memory of the argument: with dynamic sizes it works out how much
    memory both would need. It remembers nothing of `_unsafe_view`, which ends each product of batches: for it and for
    `view` it has one function, but what it remembers for an operator that is no view would have memory of its own.
    """
    dispatch, remade = FakeTensorMode._cached_dispatch_impl, FakeTensorMode._get_output_tensor_from_cache_entry

    def dispatched(self: FakeTensorMode, func: Any, *call: Any) -> Any:
        return dispatch(self, STANDING.get(func, func), *call)

    def made(self: FakeTensorMode, state: Any, entry: Any, key: Any, *rest: Any) -> Any:
        known, args = entry.metadata, rest[-1]  # before them PyTorch 2.11 to 2.14 give the operator
        if known is None or entry.view_idx is None:
            return remade(self, state, entry, key, *rest)
        base = args[entry.view_idx]
        if type(base) is not FakeTensor or not _is_plain(known) or not _is_plain(base) or base.dtype != known.dtype:
            return remade(self, state, entry, key, *rest)

        def number(value: Any) -> Any:
            return value if isinstance(value, int) else value.extract(key, state.shape_env)

        shape, stride = ([number(each) for each in sizes] for sizes in (known.shape, known.stride))
        unguarded = nullcontext() if self.shape_env is None else self.shape_env.suppress_guards()
        with torch._C.DisableTorchFunction(), torch.no_grad(), in_kernel_invocation_manager(self), unguarded:
            view = torch.as_strided(base, shape, stride, number(known.storage_offset))
        return FakeTensor(self, view, known.device)

    with (
        mock.patch.object(FakeTensorMode, "_cached_dispatch_impl", dispatched),
        mock.patch.object(FakeTensorMode, "_get_output_tensor_from_cache_entry", made),
    ):
        yield


def _is_plain(tensor: Any) -> bool:
    """Return whether a tensor, or what PyTorch remembers of one, is strided, as it is written, and without gradient."""
    told = tensor.is_conj, tensor.is_neg
    turned = any(each() for each in told) if isinstance(tensor, torch.Tensor) else any(told)
    return tensor.layout is torch.strided and not turned and not tensor.requires_grad
