"""The function mode of a capture: a table of functions, by which patches look at calls of PyTorch.

PyTorch calls a function mode for every function and for every attribute of a tensor, its own bookkeeping included: some
eighty calls for one op. Were each patch a mode, each call would pass through all of them. Here it is looked up once,
and goes to the patches that the table names for it.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

READS = frozenset(
    {
        *(
            getattr(Tensor, name).__get__
            for name in (
                *("_version", "device", "dtype", "is_leaf", "is_quantized", "is_sparse", "itemsize", "layout"),
                *("nbytes", "ndim", "requires_grad", "shape"),
            )
        ),
        *(
            getattr(Tensor, name)
            for name in (
                *("dim", "element_size", "get_device", "is_complex", "is_floating_point", "is_inference", "is_signed"),
                *("ndimension", "nelement", "numel", "size", "storage_offset", "stride", "untyped_storage"),
            )
        ),
    }
)
"""Attributes and methods that tell how a tensor is stored: nothing is computed or written, and no value is told."""


FIRST = {torch.tensor: "data", torch.as_tensor: "data", torch.asarray: "obj"}
"""Functions whose first argument has another name than `input`."""

LATER = frozenset({torch.where, torch.searchsorted, torch.polygamma, torch.special.polygamma})
"""Functions whose `input` is not their first argument."""


class Part:
    """A patch of calls: its `__torch_function__` is called for its functions, as that of a function mode would be.

    While it runs, what it calls goes to the parts behind it, and neither to itself nor to those before it.

    Attributes:
        functions: The functions that it looks at.
        in_bodies: It acts where Dynamo traces a body of control flow, too, and is code that Dynamo reads.
    """

    functions: Collection[Any] = ()
    in_bodies: ClassVar[bool] = False

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Return whether it looks at a call of another function than those; a part without this is not asked."""
        raise NotImplementedError

    def failed(self, func: Any, error: Exception, args: Any, kwargs: Any) -> None:
        """Look at the error in which a call ends; a part without this is not told."""
        raise NotImplementedError

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function, or do what stands for it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Entry:
    """A part, the mode of those behind it, and how many they are."""

    part: Part
    behind: FunctionMode | None
    left: int


_READ = _Entry(Part(), None, sys.maxsize)
"""The entry of what no part looks at, or asks about."""


class FunctionMode(TorchFunctionMode):
    """Passes each call to the first part that looks at it.

    Args:
        parts: In the order in which they see a call; the first sees it as the model makes it.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        first, *others = parts
        behind = FunctionMode(others) if others else None
        entry = _Entry(first, behind, len(others))
        self.table: dict[Any, _Entry] = dict.fromkeys(READS, _READ) if behind is None else {**behind.table}
        self.table |= dict.fromkeys(first.functions, entry)
        asked = () if behind is None else behind.asked
        self.asked: tuple[_Entry, ...] = (entry, *asked) if type(first).wants is not Part.wants else asked
        told = () if behind is None else behind.told
        self.told: tuple[_Entry, ...] = (*told, entry) if type(first).failed is not Part.failed else told
        self.in_bodies = [part for part in parts if part.in_bodies]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.compiler.is_dynamo_compiling():  # which sees through a mode as through any Python
            for part in self.in_bodies:
                return part.__torch_function__(func, types, args, kwargs)
            return func(*args, **(kwargs or {}))
        entry = self.table.get(func)
        left = -1 if entry is None else entry.left
        if kwargs and not args and entry is not None:
            args, kwargs = _by_place(func, kwargs)
        try:
            for each in self.asked:
                if each.left <= left:
                    break
                if each.part.wants(func, args, kwargs):
                    entry = each
                    break
            if entry is None or entry is _READ:
                return func(*args, **kwargs) if kwargs else func(*args)
            if entry.behind is None:
                return entry.part.__torch_function__(func, types, args, kwargs)
            with entry.behind:
                return entry.part.__torch_function__(func, types, args, kwargs)
        except Exception as error:
            passed = -1 if entry is None or entry is _READ else entry.left  # who is behind has been told
            for each in self.told:
                if each.left >= passed:
                    each.part.failed(func, error, args, kwargs)
            raise


def _by_place(func: Any, kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return arguments of which none was given by its place, with the first one so, for parts to look at."""
    name = FIRST.get(func, "input")
    if name not in kwargs or func in LATER:
        return (), kwargs
    return (kwargs[name],), {key: value for key, value in kwargs.items() if key != name}
