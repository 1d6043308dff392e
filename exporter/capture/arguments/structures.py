"""Dataclasses as containers of tensors, which torch.export takes as inputs and outputs once they are declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from exporter.capture.forward import forward_by


def register_dataclasses(value: Any) -> None:
    """Declares to PyTorch's pytrees every dataclass among the values, also those inside of others.

    The declaration stays: the reference run and the user's next call need it as well. Fields that the constructor
    does not take cannot be declared; such a class is left for PyTorch to refuse.
    """
    while kinds := {type(leaf) for leaf in pytree.tree_leaves(value) if _may_be_declared(type(leaf))}:
        for kind in kinds:
            torch.export.register_dataclass(kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}")


def _may_be_declared(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and all(field.init for field in dataclasses.fields(kind))


def declared_results(module: torch.nn.Module) -> AbstractContextManager[None]:
    """While a model is captured, the dataclasses that it returns are declared as soon as it returns them."""

    def way(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        register_dataclasses(result)
        return result

    return forward_by(module, way)
