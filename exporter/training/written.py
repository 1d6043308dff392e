"""Tensors of a step that something in it writes to, in whatever way it comes to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fxport.exporter.capture.control_flow.views import storage_of


class Written(TorchDispatchMode):
    """While it is on, note the names of the watched tensors that an operator writes to.

    PyTorch's count of writes does not tell: it does not count those through `.data`.

    Attributes:
        names: The names of the tensors that were written to.
    """

    supports_higher_order_operators = True
    """Branches and bodies are let through: what they leave in a tensor is copied to it behind them."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True, so that Dynamo works while the mode is on."""
        return True

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._memory: dict[int, tuple[str, torch.Tensor]] = {}

    def watch(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Watch the memory of tensors, with their names; it is held, so that no other tensor gets it."""
        self._memory |= {storage_of(tensor): (name, tensor) for name, tensor in tensors.items()}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        for key in _written_by(func):
            given = args[key] if isinstance(key, int) and key < len(args) else (kwargs or {}).get(_name(func, key))
            for tensor in _tensors_in(given):
                name, _ = self._memory.get(storage_of(tensor), (None, None))
                if name is not None:
                    self.names.add(name)
        return func(*args, **(kwargs or {}))


@cache
def _written_by(func: Any) -> tuple[int, ...]:
    """Return the places of the arguments that an operator writes to."""
    schema = getattr(func, "_schema", None)
    if schema is None or not schema.is_mutable:
        return ()
    return tuple(
        place for place, each in enumerate(schema.arguments) if each.alias_info is not None and each.alias_info.is_write
    )


def _name(func: Any, place: int) -> str:
    return func._schema.arguments[place].name


def _tensors_in(given: Any) -> Iterator[torch.Tensor]:
    values = given if isinstance(given, list | tuple) else (given,)
    return (each for each in values if isinstance(each, torch.Tensor) and each.layout is torch.strided)
