"""Dataclasses as containers of tensors, which torch.export takes as inputs and outputs once they are declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxport.exporter.capture.forward import forward_by


def register_dataclasses(value: Any) -> None:
    """Declare to PyTorch's pytrees every dataclass among the values, also those inside of others.

    The declaration stays: the reference run and the user's next call need it as well.
    """
    while kinds := {type(leaf) for leaf in pytree.tree_leaves(value) if dataclasses.is_dataclass(type(leaf))}:
        for kind in kinds:
            name = f"{kind.__module__}.{kind.__qualname__}"
            if _is_its_fields(kind):
                torch.export.register_dataclass(kind, serialized_type_name=name)
            else:
                _declare_by_fields(kind, name)


def _is_its_fields(kind: Any) -> bool:
    """Return whether the constructor takes all fields and does no more than to set them."""
    code = getattr(kind.__init__, "__code__", None)
    is_made = code is not None and code.co_filename == "<string>"  # by the standard library
    return is_made and not hasattr(kind, "__post_init__") and all(each.init for each in dataclasses.fields(kind))


def _declare_by_fields(kind: type, name: str) -> None:
    """Declare a dataclass whose constructor does not take some fields, or does more than to set them.

    It is put together from its fields as they were: neither the constructor nor `__post_init__` runs.
    """

    def given(value: Any) -> list[tuple[Any, Any]]:
        names = (field.name for field in dataclasses.fields(kind))
        return [(pytree.GetAttrKey(each), getattr(value, each)) for each in names if hasattr(value, each)]

    def put_together(values: Iterable[Any], names: Any) -> Any:
        made = object.__new__(kind)
        for each, value in zip(names, values, strict=True):
            object.__setattr__(made, each, value)  # also where the class is frozen
        return made

    def keys(value: Any) -> list[str]:
        return [key.name for key, _ in given(value)]

    pytree.register_pytree_node(
        kind,
        lambda value: ([child for _, child in given(value)], keys(value)),
        put_together,
        serialized_type_name=name,
        flatten_with_keys_fn=lambda value: (given(value), keys(value)),
    )


def _with_lists(result: Any) -> Any:
    """Make lists of a class of their own Python's, but for those whose length only data tells."""

    def listed(leaf: Any) -> Any:
        is_list = isinstance(leaf, list) and not getattr(leaf, "is_dynamic", False)
        return [*map(_with_lists, leaf)] if is_list else leaf

    return pytree.tree_map(listed, result)


def declared_results(module: torch.nn.Module) -> AbstractContextManager[None]:
    """Declare the dataclasses that the model returns, as soon as it returns them while it is captured.

    Lists of a class of their own are returned as Python's: PyTorch's pytrees know no others.
    """

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        register_dataclasses(result)
        listed = any(isinstance(leaf, list) for leaf in pytree.tree_leaves(result))
        return _with_lists(result) if listed else result

    return forward_by(module, call)
