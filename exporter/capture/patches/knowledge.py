"""Facts about the values of tensors, noted while a model is captured and valid until one of the tensors is written to.

PyTorch counts the writes to a tensor; tensors that share memory share the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

FACTS = "_fxport_facts"
"""The attribute of a tensor that holds what is known of it, by the name of the fact."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Tensors, and how often each had been written to when it was looked at."""

    seen: tuple[tuple[Tensor, int], ...]

    @staticmethod
    def of(*tensors: Tensor) -> Versions | None:
        """The present versions; None where PyTorch does not count the writes to one of them."""
        if any(tensor.is_inference() for tensor in tensors):
            return None
        return Versions(tuple((tensor, tensor._version) for tensor in tensors))

    @property
    def are_current(self) -> bool:
        """Tell whether nothing was written to any of them since."""
        return all(tensor._version == version for tensor, version in self.seen)


@dataclass(frozen=True, slots=True)
class _Fact:
    value: Any
    version: int
    others: Versions


def note(tensor: Tensor, name: str, value: Any, *about: Tensor) -> None:
    """Note a fact of a tensor: it holds until the tensor, or one of those that the fact is about, is written to."""
    others = Versions.of(*about)
    if others is None or tensor.is_inference():
        return
    facts: Mapping[str, _Fact] = getattr(tensor, FACTS, {})
    setattr(tensor, FACTS, {**facts, name: _Fact(value, tensor._version, others)})


def known(tensor: Any, name: str) -> Any:
    """Look up a fact of a tensor; None where there is none, or where a write has ended it."""
    fact = getattr(tensor, FACTS, {}).get(name) if isinstance(tensor, Tensor) else None
    if fact is None or fact.version != tensor._version or not fact.others.are_current:
        return None
    return fact.value
