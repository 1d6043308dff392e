"""An operator's call as a model."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.cases.ops import Draw


class Called(torch.nn.Module):
    """A model that is one call, or its first results; its tensors are inputs, everything else is in the graph."""

    def __init__(self, target: Any, arguments: Any, results: int | None = None) -> None:
        super().__init__()
        self.target = target
        self.results = results
        self.leaves, self.spec = pytree.tree_flatten(arguments, is_leaf=lambda x: isinstance(x, Draw))

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, Draw) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        result = self.target(*args, **kwargs)
        return result if self.results is None or isinstance(result, torch.Tensor) else result[: self.results]
