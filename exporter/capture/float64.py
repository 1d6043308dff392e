"""A run of eager PyTorch in float64 throughout: what the error budget measures from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

WIDER: Mapping[torch.dtype, torch.dtype] = {
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class _Widening(TorchDispatchMode):
    """Every op that is told to give a narrower type gives the wide one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map_only(torch.dtype, lambda dtype: WIDER.get(dtype, dtype), (args, kwargs or {}))
        return func(*args, **kwargs)


@contextmanager
def wide_types() -> Iterator[None]:
    """Casts of a model that lead to float32, to half precision or into an autocast region lead to float64 instead.

    Without this a norm that computes in float32 would be as inexact in the float64 run as it is in the other.
    """
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening():
            yield
    finally:
        torch.set_default_dtype(default)
