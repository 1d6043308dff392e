"""The samples of differentiable operators as models that compute gradients: the vector-Jacobian product of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils import _pytree as pytree

from tests.conformance.samples import Sample, operators, samples


class Vjp(Sample):
    """One call of an operator and its gradients for all floating tensors that went in.

    Inputs are the sample's tensors, then a weight for each result that has a gradient. What the database holds to be
    undetermined in a result, such as the sign of an eigenvector, is taken out before the gradient is.
    """

    def __init__(self, sample: Sample) -> None:
        super().__init__(sample.name, sample.call)
        self.sample = sample
        with torch.enable_grad():
            torch.manual_seed(0)
            _, results = self._results(sample.tensors)
        generator = torch.Generator().manual_seed(1)
        self.weights = tuple(torch.randn(each.shape, generator=generator, dtype=each.dtype) for each in results)
        if not results:
            raise ValueError("nothing has a gradient")

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return (*self.sample.tensors, *(each.clone() for each in self.weights))

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = len(tensors) - len(self.weights)
        with torch.enable_grad():
            leaves, results = self._results(tensors[:given])
            gradients = torch.autograd.grad(results, leaves, tensors[given:], allow_unused=True)
        return [each.detach() for each in gradients if each is not None]

    def _results(self, tensors: tuple[torch.Tensor, ...]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The floating tensors as leaves, and the results that have gradients."""
        leaves = [each.detach().requires_grad_(each.is_floating_point()) for each in tensors]
        results = pytree.tree_leaves(self.sample.comparable(self.sample(*leaves)))
        return (
            [each for each in leaves if each.requires_grad],
            [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad],
        )


def keys(dtype: torch.dtype) -> list[str]:
    """The operators whose gradients PyTorch computes in a dtype on the CPU."""
    return [
        name
        for name, op in operators().items()
        if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    ]


def gradients(op: OpInfo, dtype: torch.dtype, count: int) -> Iterator[Sample]:
    """The samples that have gradients among the first of an operator."""
    for sample in samples(op, dtype, count):
        try:
            yield Vjp(sample)
        except (ValueError, RuntimeError):  # nothing to differentiate, or PyTorch's own: neither says anything
            continue
