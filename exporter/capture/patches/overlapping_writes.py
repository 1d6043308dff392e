"""Writes to memory that the same operation reads at other places: `x[:, 1:] = x[:, :-1]`.

What eager PyTorch makes of such a write depends on the order in which its kernel goes through the memory, and is not
defined. A graph reads all values first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from torch import SymInt, Tensor
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.function_mode import Part
from fxport.fx_passes.sizes import rebuilt

REASON = "it writes to memory that it reads at other places, so that PyTorch's result depends on the order"
CURE = "Read a copy: `x[:, 1:] = x[:, :-1].clone()`."

LARGEST = 2**20
"""Elements of a view up to which their places are compared one by one."""

NAMES = (
    *(name for name in dir(Tensor) if name.endswith("_") and not name.startswith("_")),
    *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")),
    *("__ilshift__", "__irshift__", "__setitem__"),
)

WRITING = frozenset(getattr(Tensor, name) for name in NAMES if callable(getattr(Tensor, name, None)))
"""Methods that write to their tensor."""

COPYING = frozenset({Tensor.__setitem__, Tensor.copy_})
"""Methods that put there what they read: an element that gets itself is as it was."""

FILLING = frozenset({Tensor.fill_, Tensor.masked_fill_, Tensor.index_fill_})
"""Methods that take one value."""

Layout = tuple[tuple[Any, ...], tuple[Any, ...], Any]
"""Sizes, strides and offset of a view. Any: numbers, or expressions of dynamic sizes."""


class OverlapsRefused(Part):
    """Refuse a write to a view of memory that another argument views at other places, at sizes near the example."""

    functions = WRITING

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(kwargs) and kwargs.get("out") is not None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = kwargs.get("out", args[0] if args else None)
        read = [each for each in pytree.tree_leaves((args, kwargs)) if _shares_memory(each, written)]
        if read and func is Tensor.__setitem__:
            written = _target(written, args[1])
        if func in FILLING:  # which reads the value before it writes
            read = [each for each in read if each.dim()]
        if any(written is not None and _overlap(written, each, copies=func in COPYING) for each in read):
            raise RefusedError(REASON, cure=CURE)
        return func(*args, **kwargs)


def _shares_memory(value: Any, written: Any) -> bool:
    if not (isinstance(value, FakeTensor) and isinstance(written, FakeTensor)) or value is written:
        return False
    return value.untyped_storage()._cdata == written.untyped_storage()._cdata


def _target(x: Tensor, index: Any) -> Tensor | None:
    """Return the view of a tensor to which `x[index] = …` writes; None where tensors choose the places."""
    places = index if isinstance(index, tuple) else (index,)
    if any(isinstance(each, (Tensor, list, np.ndarray, bool)) for each in places):
        return None
    return x[index]


def _overlap(written: Tensor, read: Tensor, *, copies: bool) -> bool:
    """Return whether what is written is read for another element, at one of some sizes."""
    one, other = _layout(written), _layout(read)
    if one == other:
        return False
    numbers = [*one[0], *one[1], one[2], *other[0], *other[1], other[2]]
    symbols = {symbol for each in numbers if isinstance(each, sympy.Basic) for symbol in each.free_symbols}
    if not symbols:
        return _meet(_at(one, {}), _at(other, {}), copies)
    parts = (*written.shape, *written.stride(), *read.shape, *read.stride())
    env = next((each.node.shape_env for each in parts if isinstance(each, SymInt)), None)
    if env is None or not symbols <= env.backed_var_to_val.keys():
        return False
    tried = ({symbol: _near(env, symbol, step) for symbol in symbols} for step in NEAR)
    return any(_meet(_at(one, sizes), _at(other, sizes), copies) for sizes in tried)


def _near(env: Any, symbol: Any, step: Callable[[int], int]) -> int:
    """Return a size near the example's, in the range that was asked for."""
    size, most = int(env.backed_var_to_val[symbol]), env.var_to_range[symbol].upper
    return min(step(size), max(int(most), size)) if isinstance(most, (int, sympy.Integer)) else step(size)


NEAR: tuple[Callable[[int], int], ...] = (lambda n: n, lambda n: n + 1, lambda n: 2 * n + 1)
"""Sizes at which views are looked at: that of the example, the next one, and a larger one."""


def _layout(view: Tensor) -> Layout:
    """Return the sizes, the strides and the offset, these in bytes."""
    width = view.element_size()
    sizes, strides = tuple(map(_plain, view.shape)), tuple(_plain(each) * width for each in view.stride())
    return sizes, strides, _plain(view.storage_offset()) * width


def _plain(number: Any) -> Any:
    return number.node.expr if isinstance(number, SymInt) else number


def _at(layout: Layout, sizes: dict[Any, int]) -> Layout:
    numbers = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}

    def number(value: Any) -> int:
        return int(rebuilt(value, numbers)) if isinstance(value, sympy.Basic) else value

    return tuple(map(number, layout[0])), tuple(map(number, layout[1])), number(layout[2])


@lru_cache(maxsize=256)
def _meet(one: Layout, other: Layout, copies: bool) -> bool:
    """Return whether an element of one view lies where another element of the other does; of copies, also a third."""
    while len(other[0]) > len(one[0]) and other[0][0] == 1:  # a value may have more axes than the place it goes to
        other = other[0][1:], other[1][1:], other[2]
    if one == other or 0 in one[0] or 0 in other[0] or _end(one) <= other[2] or _end(other) <= one[2]:
        return False
    if one[:2] == other[:2]:
        return _reaches(tuple(zip(*one[:2], strict=True)), other[2] - one[2])
    if max(math.prod(one[0]), math.prod(other[0])) > LARGEST:
        return True  # which nobody has shown to be apart
    first, second = _places(one), _places(other)
    try:
        second = np.broadcast_to(second, first.shape)
    except ValueError:
        return bool(np.intersect1d(first, second).size)
    apart = first != second
    return bool(np.intersect1d(first[apart] if copies else first, second[apart]).size)


def _reaches(axes: tuple[tuple[int, int], ...], way: int) -> bool:
    """Return whether a number is a sum of strides, each taken less often than its axis is long, in either direction."""
    if not axes:
        return way == 0
    (size, stride), *others = sorted(axes, key=lambda axis: -axis[1])
    rest = sum((length - 1) * step for length, step in others)
    if stride == 0:
        return _reaches(tuple(others), way)
    low, high = max(-(-(way - rest) // stride), 1 - size), min((way + rest) // stride, size - 1)
    return any(_reaches(tuple(others), way - times * stride) for times in range(low, high + 1))


def _end(layout: Layout) -> int:
    sizes, strides, offset = layout
    return offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1


def _places(layout: Layout) -> Any:
    """Return the place in memory of each element."""
    places = np.full((1,) * len(layout[0]), layout[2], dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(layout[0], layout[1], strict=True)):
        steps = np.arange(size) * stride
        places = places + steps.reshape([-1 if each == axis else 1 for each in range(len(layout[0]))])
    return places
