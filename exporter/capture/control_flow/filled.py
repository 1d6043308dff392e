"""Lists that a loop over a dynamic size fills: they know how many elements they stand for, and in which order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from exporter.capture.control_flow.merging import LoopError


class Filled(list[Any]):
    """A list of a rewritten function. With a Many in it, it does what can be done with all of its elements, or refuses.

    Python's own list would take a Many for one element.
    """

    @property
    def is_dynamic(self) -> bool:
        return any(is_many(each) for each in list.__iter__(self))

    @property
    def count(self) -> Any:  # type: ignore[override]  # which a list with a Many in it cannot tell
        """The number of elements, symbolic where it is."""
        return sum(each.count if is_many(each) else 1 for each in list.__iter__(self))

    def joined(self) -> Tensor:
        """All elements along a new first axis."""
        parts = [each.stacked if is_many(each) else each for each in list.__iter__(self)]
        if not all(isinstance(each, Tensor) for each in parts):
            raise LoopError("a list of other things than tensors, of as many as a dynamic size has")
        whole = [
            part if is_many(each) else part.unsqueeze(0) for part, each in zip(parts, list.__iter__(self), strict=True)
        ]
        return whole[0] if len(whole) == 1 else torch.cat(whole)

    def turned(self) -> Filled:
        """The elements from the last to the first."""
        if any(is_many(each) and not isinstance(each.stacked, Tensor) for each in list.__iter__(self)):
            raise self._refusal()
        return Filled(
            type(each)(each.stacked.flip(0)) if is_many(each) else each for each in reversed([*list.__iter__(self)])
        )

    def reverse(self) -> None:
        list.__setitem__(self, slice(None), [*list.__iter__(self.turned())])

    def __getitem__(self, key: Any) -> Any:
        if not self.is_dynamic:
            return list.__getitem__(self, key)
        if key == slice(None, None, -1):
            return self.turned()
        if type(key) is int and key in (0, -1):
            found = list.__getitem__(self, key)
            if is_many(found) and not isinstance(found.stacked, Tensor):
                raise self._refusal()
            return found.stacked[key] if is_many(found) else found
        raise self._refusal()

    def _refusal(self) -> LoopError:
        return LoopError("a list of as many elements as a dynamic size has")


def is_many(each: Any) -> bool:
    """Whether it stands for the elements that a loop appended: a `Many` of them."""
    return isinstance(getattr(type(each), "stands_for_many", None), bool)


def _guarded(name: str) -> Any:
    own = getattr(list, name)

    def method(self: Filled, *args: Any) -> Any:
        if self.is_dynamic:
            raise self._refusal()
        return own(self, *args)

    return method


for _name in ("__iter__", "__len__", "__reversed__", "__contains__", "__eq__", "__add__", "__mul__", "__setitem__",
              "__delitem__", "insert", "pop", "remove", "index", "copy", "sort"):  # fmt: skip
    setattr(Filled, _name, _guarded(_name))
