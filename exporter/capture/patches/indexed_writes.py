"""Reads and writes at a place that is known only when the model runs: `x[:, i]`, where `i` is a tensor without axes.

So it is with `x[b]` where `b` is a truth: it gives an axis of one element or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler
from torch._subclasses import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.exporter.capture.faults import RefusedError

functorch: Any = torch._C._functorch  # type: ignore[attr-defined]  # the stubs lack it

NUMBERS = (bool, int, float, complex, SymInt, SymFloat)
MASKS = (torch.bool, torch.uint8)
INDICES = (torch.int64, torch.int32, torch.int16, torch.int8)


def write_at(x: Tensor, key: Any, value: Any) -> Any:
    """`x[key] = value` where PyTorch would ask for a number of the key. NotImplemented for any other key.

    Symbolic numbers are selected. Numbers in tensors go into an index_put, to a view of `x` by the slices, new axes and
    plain numbers of the key.
    """
    if _is_truth(key):
        return _write_if(x, key, value)
    if (tensors := _lists_as_tensors(x, key)) is not None:
        x[tensors] = value
        return None
    if (plain := _truth_as_axis(key)) is not None:
        if write_at(x, plain, value) is NotImplemented:
            x[plain] = value
        return None
    parts = key if isinstance(key, tuple) else (key,)
    _require_plain_steps(parts)
    if any(isinstance(part, SymInt) for part in parts) and all(map(_is_single, parts)):
        view, rest = _selected(x, parts)
        if write_at(view, rest, value) is NotImplemented:
            view[rest] = value
        return None
    if all(map(_is_basic, parts)) and _asks_in_slices(parts, value):
        part = x[tuple(map(_without_tensors, parts))]
        part.copy_(_without_first_ones(_as_tensor(x, value), part.dim()))
        return None
    if not any(_is_place(part) for part in parts) or not all(_is_place(part) or _is_basic(part) for part in parts):
        return NotImplemented
    view = x[tuple(slice(None) if _is_place(part) else part for part in parts)]
    taken = sum(part is not None and part is not Ellipsis for part in parts)
    places: list[Tensor | None] = []
    for part in parts:
        if part is Ellipsis:
            places += [None] * (x.dim() - taken)
        elif _is_place(part):
            places.append(part)
        elif not isinstance(part, int):
            places.append(None)
    rank = view.dim() - sum(place is not None for place in places)
    given = _without_first_ones(_as_tensor(x, value), rank)
    torch.ops.aten.index_put_(view, places, given.to(x.dtype))
    return None


def _require_plain_steps(parts: tuple[Any, ...]) -> None:
    """Raise RefusedError for a slice with a step that only data tell: no operator gives a view of such."""
    steps = [part.step for part in parts if isinstance(part, slice)]
    if any(_is_place(each) or (isinstance(each, SymInt) and free_unbacked_symbols(each)) for each in steps):
        raise RefusedError(STEPPED, cure=INDEXED, by_values=True)


def sliced(x: Tensor, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    """Require what `_require_plain_steps` does of a slice that PyTorch has read of a key."""
    _require_plain_steps((slice(start, end, step),))
    return NotImplemented


STEPPED = "it takes a slice with a step that only data tell"
INDEXED = "Take the elements by their numbers: `x[torch.arange(0, len(x), n)]`."


def _asks_in_slices(parts: tuple[Any, ...], value: Any) -> bool:
    """Return whether PyTorch asks for a number in a slice: for that of a tensor, and for any where it writes a number,
    or what has sizes that data tell.
    """
    slices = [part for part in parts if isinstance(part, slice)]
    bounds = [bound for part in slices for bound in (part.start, part.stop)]
    if any(map(_is_place, bounds)):
        return True
    asked = type(value) in NUMBERS or (isinstance(value, Tensor) and any(map(free_unbacked_symbols, value.shape)))
    return asked and any(isinstance(each, SymInt) for each in bounds)


def _without_first_ones(given: Tensor, rank: int) -> Tensor:
    """Return what is written without axes of one element that there are too many of, as PyTorch takes it."""
    while given.dim() > rank and given.shape[0] == 1:
        given = given.squeeze(0)
    return given


def read_at(x: Tensor, key: Any) -> Any:
    """`x[key]` where PyTorch would ask for a number of the key. NotImplemented for any other key.

    Symbolic numbers beside tensors are selected, numbers in tensors go into an index_select, bounds of slices are read.
    """
    if _is_truth(key):
        return x.unsqueeze(0)[key.unsqueeze(0)]
    if (tensors := _lists_as_tensors(x, key)) is not None:
        return x[tensors]
    parts = key if isinstance(key, tuple) else (key,)
    _require_plain_steps(parts)
    if all(any(isinstance(part, kind) for part in parts) for kind in (SymInt, Tensor)) and all(map(_is_single, parts)):
        view, rest = _selected(x, parts)
        found = read_at(view, rest)
        return view[rest] if found is NotImplemented else found
    if not any(_is_hidden(part) for part in parts) or not all(_is_hidden(part) or _is_basic(part) for part in parts):
        return NotImplemented
    view: Any = x[tuple(map(_without_tensors, parts))]
    left = [part for part in parts if type(part) is not int]  # an ellipsis stands for as many axes as are missing
    for position in reversed(range(len(left))):
        part = left[position]
        if isinstance(part, Tensor):
            counted = any(each is Ellipsis for each in left[:position])
            axis = position - len(left) + view.dim() if counted else position
            place = torch.where(part < 0, part + view.shape[axis], part)
            view = view.index_select(axis, place.reshape(1)).squeeze(axis)
            del left[position]
    return view


@contextmanager
def keys_as_eager_has_them() -> Iterator[None]:
    """Read `x[n, True]` and, within a vmap, `x[i]` as eager PyTorch does, whose trace asks otherwise.

    It takes `True` for a number beside sizes, and asks for the one number of `i` where each row has its own.
    """
    found = _NonStrictTorchFunctionHandler._override

    def overridden(self: Any, func: Any, args: Any, kwargs: Any) -> Any:
        if func is Tensor.__getitem__ and (plain := _truth_as_axis(args[1])) is not None:
            args = (args[0], plain)
        if func is Tensor.__getitem__ and _is_of_rows(args[1]):
            return _read_of_rows, args, kwargs
        return found(self, func, args, kwargs)

    with mock.patch.object(_NonStrictTorchFunctionHandler, "_override", overridden):
        yield


def _is_of_rows(key: Any) -> bool:
    """Return whether a key has a number that each row of a vmap may have its own of."""
    parts = key if isinstance(key, tuple) else (key,)
    return functorch.peek_interpreter_stack() is not None and any(map(_is_place, parts))


def _read_of_rows(x: Tensor, key: Any) -> Tensor:
    result = read_at(x, key)
    return x[key] if result is NotImplemented else result


def _truth_as_axis(key: Any) -> Any:
    """Return a key of symbolic numbers and one `True` with an axis of one element for that, which is the same.

    None for any other key. PyTorch takes `True` for a number there. Raises RefusedError for `False`, and for several.
    """
    parts = key if isinstance(key, tuple) else (key,)
    truths = [part for part in parts if type(part) is bool]
    if not truths or not any(map(_is_symbolic, parts)):
        return None
    if truths != [True] or any(isinstance(part, Tensor) and part.dim() for part in parts):
        raise RefusedError(OF_TRUTHS, cure=AXIS)
    return tuple(None if type(part) is bool else part for part in parts)


def _is_symbolic(part: Any) -> bool:
    """Return True for an index, or a slice with a bound, that is no plain number."""
    if isinstance(part, slice):
        return any(map(_is_symbolic, (part.start, part.stop, part.step)))
    return isinstance(part, SymInt) or _is_place(part)


OF_TRUTHS = "it indexes by `True` or `False` beside a size or a number of the data"
AXIS = "Write `None` for `True`: that gives an axis of one element, too."


def _lists_as_tensors(x: Tensor, key: Any) -> Any:
    """Return a key whose lists of numbers, some of which are symbolic, are tensors; None if it has no such list."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(map(_is_list_of_sizes, parts)):
        return None
    return tuple(
        torch.stack([torch.scalar_tensor(each, dtype=torch.int64, device=x.device) for each in part])
        if _is_list_of_sizes(part)
        else part
        for part in parts
    )


def _is_list_of_sizes(part: Any) -> bool:
    whole = isinstance(part, list) and all(type(each) is int or isinstance(each, SymInt) for each in part)
    return whole and any(isinstance(each, SymInt) for each in part)


def _selected(x: Tensor, parts: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Return the view that the symbolic numbers of a key select, and the rest of the key: PyTorch takes numbers
    first.
    """
    left = x.dim() - sum(map(_axes_of, parts))
    view, dim = x, 0
    for part in parts:
        if isinstance(part, SymInt):
            view: Any = view.select(dim, part)  # type: ignore[arg-type]  # the stubs know no symbolic numbers
        else:
            dim += left if part is Ellipsis else _axes_of(part)
    return view, tuple(part for part in parts if not isinstance(part, SymInt)) or (...,)


def _axes_of(part: Any) -> int:
    """Return the number of axes of a tensor that a part of a key indexes; an ellipsis takes all that are left."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.dim() if isinstance(part, Tensor) and part.dtype in MASKS else 1


def _is_single(part: Any) -> bool:
    """Return True if a part of a key is no sequence, which PyTorch would make a tensor of."""
    return _is_basic(part) or isinstance(part, (SymInt, Tensor))


def _write_if(x: Tensor, truth: Tensor, value: Any) -> Any:
    given = _as_tensor(x, value).to(x.dtype)
    if given.dim() > x.dim():
        torch.ops.aten.index_put_(x.unsqueeze(0), [truth.unsqueeze(0)], given)
    else:
        x.copy_(torch.where(truth, given, x))
    return None


def _as_tensor(x: Tensor, value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.scalar_tensor(value, dtype=x.dtype, device=x.device)


def _is_truth(part: Any) -> bool:
    return isinstance(part, Tensor) and part.dim() == 0 and part.dtype == torch.bool and not _is_known(part)


def _is_known(part: Tensor) -> bool:
    """Return True if PyTorch finds the number of a tensor without data; it looks for those of data in memory."""
    if not isinstance(part, FakeTensor):
        return False
    held = part.item_memo
    return part.constant is not None or (held is not None and not _is_of_data(held))


def _is_of_data(held: Any) -> bool:
    return isinstance(held, (SymInt, SymBool)) and bool(free_unbacked_symbols(held))


def _is_hidden(part: Any) -> bool:
    """Return True if a tensor of unknown value is used where Python wants a number."""
    if isinstance(part, slice):
        return any(map(_is_hidden, (part.start, part.stop)))
    return _is_place(part) and not _is_known(part)


def _without_tensors(part: Any) -> Any:
    if isinstance(part, slice):
        start, stop = (each.item() if _is_place(each) else each for each in (part.start, part.stop))
        return slice(start, stop, part.step)
    return slice(None) if _is_hidden(part) else part


def _is_place(part: Any) -> bool:
    return isinstance(part, Tensor) and part.dim() == 0 and part.dtype in INDICES


def _is_basic(part: Any) -> bool:
    return part is None or part is Ellipsis or isinstance(part, slice) or type(part) is int
