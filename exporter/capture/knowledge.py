"""Facts about the values of tensors, noted while a model is captured and valid until one of the tensors is written to.

PyTorch counts the writes to a tensor; tensors that share memory share the count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.autograd.graph import increment_version
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from fxport.exporter.capture.function_mode import Part

FACTS = "_fxport_facts"
"""The attribute of a tensor that holds what is known of it, by the name of the fact."""


_bodies = 0


@contextmanager
def body_entered() -> Iterator[None]:
    """Run code meanwhile as the body of an operator, which has numbers of data from outside in other forms."""
    global _bodies
    _bodies += 1
    try:
        yield
    finally:
        _bodies -= 1


def is_body() -> bool:
    """Return whether code runs as such a body."""
    return _bodies > 0


def version(tensor: Tensor) -> int | None:
    """Return how often a tensor was written to; None where PyTorch does not count, in inference mode."""
    return None if tensor.is_inference() else tensor._version


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


def facts_of(tensor: Tensor) -> dict[str, Any]:
    """Return what is known of a tensor, by the names of the facts."""
    found = {name: known(tensor, name) for name in getattr(tensor, FACTS, {})}
    return {name: value for name, value in found.items() if value is not None}


STATISTICS: Mapping[Any, tuple[int, int]] = {
    F.batch_norm: (1, 2),
    F.instance_norm: (1, 2),
    torch.batch_norm: (3, 4),
    torch.instance_norm: (3, 4),
}
"""Functions that may write to running statistics: their places among the arguments."""

LEARNS = 5
"""The place of the argument of these that tells whether they do: `training`, or `use_input_stats`."""

LISTED = tuple(name for name in dir(torch) if name.startswith("_foreach_") and name.endswith("_"))
"""Functions that write to lists of tensors."""

OPERATORS = (OpOverload, OpOverloadPacket)


class WritesCounted(Part):
    """While it is active, the writes that PyTorch does not count itself are counted.

    It counts none of lists of fake tensors (`torch._foreach_add_`), of running statistics, and of operators that were
    declared to write and have no kernel of autograd.
    """

    functions = frozenset({*STATISTICS, *(getattr(torch, name) for name in LISTED)})

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return isinstance(func, OPERATORS)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = [(each, version(each)) for each in _written(func, args, kwargs)]
        result = func(*args, **kwargs)
        for tensor, before in written:
            if before is not None and version(tensor) == before:
                increment_version(tensor)
        return result


def statistics_written(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return the running statistics to which a normalization writes; none where it only reads them, as in eval mode."""
    flag = args[LEARNS] if len(args) > LEARNS else func is F.instance_norm
    if func not in STATISTICS or kwargs.get("training", kwargs.get("use_input_stats", flag)) is False:
        return []
    given = [args[place] for place in STATISTICS[func] if place < len(args)]
    return [*given, kwargs.get("running_mean"), kwargs.get("running_var")]


def _written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Find the tensors to which a call writes, where PyTorch may not count that."""
    name = getattr(func, "__name__", "")
    given: list[Any] = []
    if func in STATISTICS:
        if torch.is_grad_enabled():  # autograd may have saved them, and takes no count of these writes either
            return iter(())
        given = statistics_written(func, args, kwargs)
    elif isinstance(func, OPERATORS):
        overload = func if isinstance(func, OpOverload) else getattr(func, func.overloads()[0])
        arguments = overload._schema.arguments
        places = {each.name: i for i, each in enumerate(arguments) if each.alias_info and each.alias_info.is_write}
        given = [kwargs.get(name, args[place] if place < len(args) else None) for name, place in places.items()]
    elif name.startswith("_foreach_") and name.endswith("_"):
        given = [args[0]]
    return (each for each in pytree.tree_leaves(given) if isinstance(each, Tensor))
