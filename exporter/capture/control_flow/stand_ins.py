"""Copies that a rehearsal writes to in the place of tensors of outside.

A write is seen by autograd, and where writes are taken out of the trace it gives the tensor another value: a rehearsal,
of which nothing is recorded, must not leave it behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils import _pytree as pytree

from fxport.exporter.capture.control_flow.views import storage_of
from fxport.exporter.capture.knowledge import statistics_written

UNWRITTEN = frozenset({"detach_", "requires_grad_", "share_memory_"})
"""Methods in place that leave the elements as they are."""


def written_by(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Tensor]:
    """Yield the tensors that a call writes to, as its name or its arguments tell."""
    name = getattr(func, "__name__", "")
    if name in UNWRITTEN:
        return
    found: list[Any] = [kwargs.get("out")]
    if (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or name.startswith("__i"):
        found.append(args[0])
    if kwargs.get("inplace"):
        found.append(args[0] if args else kwargs.get("input"))
    found += statistics_written(func, args, kwargs)
    yield from (each for each in pytree.tree_leaves(found) if isinstance(each, Tensor))


class WrittenThroughAnother(Exception):
    """A body is about to write to a tensor of outside through another that shares its memory."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.tensor = tensor


@dataclass
class StandIns:
    """Copies by the ids of the tensors in whose place they are.

    Attributes:
        copies: The tensor and its copy.
    """

    copies: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)

    @staticmethod
    def of(tensors: Iterable[Tensor]) -> StandIns:
        """Make a copy of each."""
        new = StandIns()
        for each in tensors:
            new.put(each)
        return new

    @property
    def tensors(self) -> Sequence[Tensor]:
        """The tensors that have a copy."""
        return [tensor for tensor, _ in self.copies.values()]

    def put(self, tensor: Tensor) -> None:
        """Let a copy stand for a tensor, if a write to it would leave anything behind."""
        if id(tensor) not in self.copies and _keeps_writes(tensor):
            with disable_proxy_modes_tracing(), torch.enable_grad():
                self.copies[id(tensor)] = tensor, tensor.clone()

    def require_own(self, written: Tensor, outside: Iterable[Tensor]) -> None:
        """Raise WrittenThroughAnother if a tensor has the memory of one of outside that has no copy."""
        open_ = (each for each in outside if each is not written and id(each) not in self.copies)
        for each in open_:
            if _keeps_writes(each) and storage_of(each) == storage_of(written):
                raise WrittenThroughAnother(each)

    def instead(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return arguments with the copies in their places."""
        if not self.copies:
            return args, kwargs
        return pytree.tree_map_only(Tensor, lambda each: self.copies.get(id(each), (each, each))[1], (args, kwargs))

    def original(self, result: Any) -> Any:
        """Return a result, or the tensor for which it stands: a method in place returns what it writes to."""
        return next((tensor for tensor, copy in self.copies.values() if copy is result), result)


def _keeps_writes(tensor: Tensor) -> bool:
    with torch._C.DisableTorchFunction():  # the model asks nothing here
        return isinstance(tensor, FunctionalTensor) or tensor.requires_grad
