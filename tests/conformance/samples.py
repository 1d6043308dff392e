"""The samples of PyTorch's operator database as small models."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

SAMPLES = {torch.float32: 3, torch.int64: 1, torch.bool: 1, torch.float16: 1, torch.complex64: 1}
"""How many samples of each dtype a whole run takes from every operator."""

OTHERS = (torch.float64, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8)
"""Dtypes that no whole run takes, of which one sample is taken where they are asked for."""


@dataclass(frozen=True)
class Key:
    """One sample of one operator in one dtype; `text` is its row in reports and in the table of known gaps."""

    op: str
    dtype: str
    index: int

    @property
    def text(self) -> str:
        return f"{self.op}|{self.dtype}|{self.index}"


class Sample(torch.nn.Module):
    """One call of a function or a module; its tensors are the model's inputs, everything else is part of it.

    Args:
        name: Name of the operator; some are compared by rules of their own.
        call: What is called.
        args: Its arguments.
        kwargs: Its keyword arguments.
        comparable: Takes from the results what the database holds to be determined: not the sign of an eigenvector.
        sizes: The dynamic sizes of each tensor; None if all are as they are.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        comparable: Callable[[Any], Any] = lambda results: results,
        sizes: Sequence[Any] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.call = call
        self.comparable = comparable
        self.dynamic_shapes = None if sizes is None else {"tensors": tuple(sizes)}
        self.leaves, self.spec = pytree.tree_flatten((args, dict(kwargs or {})))

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(leaf.detach().clone() for leaf in self.leaves if isinstance(leaf, torch.Tensor))

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.call(*args, **kwargs)


def full_name(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def operators() -> dict[str, OpInfo]:
    return {full_name(op): op for op in op_db}


def keys(dtype: torch.dtype) -> list[str]:
    """The operators that PyTorch supports in a dtype on the CPU."""
    return [name for name, op in operators().items() if dtype in op.supported_dtypes("cpu")]


def samples(op: OpInfo, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """The first samples of an operator, the same in every run."""
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in islice(op.sample_inputs("cpu", dtype, requires_grad=False), count):
            arguments = (each.input, *each.args)
            yield Sample(op.name, op.op, arguments, each.kwargs, each.output_process_fn_grad)
