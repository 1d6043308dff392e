"""Calls of `forward` that are looked at while it is captured, and made as they are: one mode, a table by function.

* Errors that depend on values, where the model would catch them: a graph raises none. `try: torch.linalg.cholesky(x)`
  with an `except` clause has two results, and the capture sees only the first.
* Errors that depend on sizes, likewise: at another size the graph would go on where the capture did not.
* What `min` and `max` of tensors give, which is one of them in Python, and in the graph a third.
* `x.is_contiguous()`: the sizes at which it tells otherwise become conditions. A tensor may be contiguous only because
  a size is 1. PyTorch takes no dynamic size to be 1, and keeps no guard of what is asked about how a tensor lies in
  memory: most of that is asked by ops, which give the same for any answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import sympy
import torch
from torch import SymBool, SymFloat, SymInt, Tensor, linalg
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.control_flow.lifting import HoldsItems
from fxport.exporter.capture.function_mode import Part
from fxport.exporter.capture.guards.askers import line_that_asks, place_of_asker
from fxport.exporter.capture.guards.caught import NOT_IN_MEMORY, SIZED, require_uncaught, would_be_caught
from fxport.exporter.capture.guards.guard import Guard
from fxport.exporter.capture.patches.extremes import require_unwritten, unwritten
from fxport.exporter.capture.rewritten import note_rewritten
from fxport.exporter.capture.sizes.strides import contiguity
from fxport.fx_passes.sizes import size_of, unfolded

LinAlgError: Any = linalg.LinAlgError  # type: ignore[attr-defined]  # of C++

SOLVERS: tuple[Any, ...] = (
    *(linalg.cholesky, linalg.inv, linalg.solve, linalg.lstsq, linalg.ldl_factor, linalg.svd, linalg.svdvals),
    *(linalg.eig, linalg.eigh, linalg.eigvals, linalg.eigvalsh),
    *(torch.cholesky, torch.inverse, Tensor.cholesky, Tensor.inverse),
)
INDEXING = ("gather", "index_select", "take", "take_along_dim", "index_add", "scatter", "index_put", "index_put_")
SELECTING = ("select", "narrow")

ALWAYS: Mapping[Any, Any] = {
    **dict.fromkeys(SOLVERS, LinAlgError),
    **{getattr(owner, name): RuntimeError for name in INDEXING for owner in (torch, Tensor) if hasattr(owner, name)},
    **dict.fromkeys((F.embedding, F.nll_loss, F.cross_entropy), IndexError),
    **dict.fromkeys((F.one_hot, torch.multinomial, torch.bincount, F.binary_cross_entropy), RuntimeError),
}
"""Functions whose errors depend on the values of tensors, and the type of these errors."""

EMPTY = ("max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "median", "nanmedian", "mode", "kthvalue")
"""Functions that raise an error for no elements, of which data may select none."""

IN_MEMORY = frozenset((Tensor.numpy, Tensor.__array__, Tensor.data_ptr, Tensor.__dlpack__))
"""Functions that need what a tensor holds, or where it lies, which no tensor of a capture has."""

BY_INDEX = (
    *(Tensor.__getitem__, Tensor.__setitem__),
    *(getattr(owner, name) for name in SELECTING for owner in (torch, Tensor)),
)
"""Functions that raise IndexError for an index beyond a size, which data tells if the index comes from there."""


VIEWS = frozenset((Tensor.view, Tensor.view_as))
"""Functions that raise RuntimeError in eager PyTorch for strides that do not fit, and ValueError for a fake tensor."""

ERRORS = (RuntimeError, IndexError, ValueError, TypeError)
"""The types of the errors that PyTorch raises for sizes that do not fit."""

OPEN = (GuardOnDataDependentSymNode, DataDependentOutputException)
"""Errors of the capture, which asks for values that nobody knows."""


class CallsWatched(Part):
    """Look at some calls before they are made.

    Args:
        guards: Gets the conditions under which what `is_contiguous` tells the model is what it tells for all sizes.
        catches: Whether the model has statements that catch errors.
    """

    def __init__(self, guards: list[Guard], *, catches: bool = False) -> None:
        self.catches = catches
        self.watching: Mapping[Any, Callable[..., None]] = {
            **{func: partial(_uncaught, kind) for func, kind in ALWAYS.items()},
            **dict.fromkeys(BY_INDEX, _uncaught_index),
            **{getattr(owner, name): _uncaught_empty for name in EMPTY for owner in (torch, Tensor)},
            Tensor.is_contiguous: partial(_note_layout, guards),
        }
        self.functions = self.watching.keys()

    def wants(self, func: Any, args: Any, kwargs: Any) -> bool:
        return bool(unwritten.get()) or (self.catches and _hangs_on_data(func, args, kwargs))

    def failed(self, func: Any, error: Exception, args: Any, kwargs: Any) -> None:
        if not isinstance(error, ERRORS) or isinstance(error, OPEN):
            return
        kind = RuntimeError if func in VIEWS and isinstance(error, ValueError) else type(error)
        if func in IN_MEMORY:
            require_uncaught(kind, NOT_IN_MEMORY)
        elif any(map(_is_sized, pytree.tree_leaves((args, kwargs)))):
            require_uncaught(kind, SIZED)
        elif would_be_caught(kind):
            note_rewritten("call")  # what raises it here may not in PyTorch
        if kind is not type(error):
            raise kind(*error.args) from error

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (watch := self.watching.get(func)) is not None:
            watch(*args, **(kwargs or {}))
        elif self.catches and _hangs_on_data(func, args, kwargs):
            for kind in ERRORS:
                require_uncaught(kind)
        if found := unwritten.get():
            require_unwritten(found)
        result = func(*args, **(kwargs or {}))
        if found:
            require_unwritten(found, pytree.tree_leaves((args, kwargs)))
        return result


def _hangs_on_data(func: Any, args: Any, kwargs: Any) -> bool:
    """Return whether a function may raise an error for sizes that only data tell."""
    found = pytree.tree_leaves((args, kwargs or {}))
    values = [leaf for each in found for leaf in (each.leaves() if isinstance(each, HoldsItems) else [each])]
    return _may_fail(getattr(func, "__name__", ""), values)


def _is_sized(value: Any) -> bool:
    """Return whether an argument is of a dynamic size, on which an error may hang."""
    sizes = value.shape if isinstance(value, Tensor) else (value,)
    return any(isinstance(each, SymInt) for each in sizes)


def _uncaught(kind: type[Exception], *_: Any, **__: Any) -> None:
    require_uncaught(kind)


def _uncaught_empty(x: Tensor, *_: Any, **__: Any) -> None:
    if any(map(free_unbacked_symbols, x.shape)):
        for kind in (RuntimeError, IndexError):
            require_uncaught(kind)


def _uncaught_index(x: Tensor, *index: Any, **named: Any) -> None:
    found = pytree.tree_leaves((index, named))
    of_few = any(map(free_unbacked_symbols, x.shape)) and any(type(each) is int for each in found)
    if of_few or any(map(_is_of_data, found)):
        require_uncaught(IndexError)
    if len(index) > 1 and any(map(_is_mask, pytree.tree_leaves(index[0]))) and isinstance(index[-1], Tensor):
        require_uncaught(RuntimeError)  # as many values as the mask selects


class FailuresNoted(TorchFunctionMode):
    """Note whether functions are called that may fail for values or sizes that data tell.

    Where indexes come from data, and where the values themselves decide, `CallsWatched` tells.
    """

    is_any = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.is_any |= _may_fail(getattr(func, "__name__", ""), pytree.tree_leaves((args, kwargs)))
        return func(*args, **(kwargs or {}))


_OPERATORS = "lt le gt ge eq ne add radd sub rsub mul rmul neg abs and or xor invert"
_FUNCTIONS = """
    lt le gt ge eq ne add sub mul neg abs logical_not logical_and logical_or clamp isnan isfinite exp log sqrt
    any all sum mean numel size dim nonzero clone detach to float double int long bool
    tensor as_tensor scalar_tensor sym_int sym_float sym_not sym_ite sym_max sym_min
"""
TOTAL = frozenset({f"__{name}__" for name in ("get", "len", *_OPERATORS.split())} | {*_FUNCTIONS.split()})
"""Names of functions that take one tensor of any size, also of no elements, and numbers of any value."""

_DIVIDING = ("floordiv", "rfloordiv", "mod", "rmod")
DIVIDING = frozenset({f"__{name}__" for name in _DIVIDING} | {"floor_divide", "remainder", "fmod", "div", "divide"})
"""Names of functions that may divide whole numbers, of which there is no quotient by 0."""


def _may_fail(name: str, values: Sequence[Any]) -> bool:
    """Return whether a function may fail for some values of numbers, elements or sizes that only data tell."""
    tensors = [each for each in values if isinstance(each, Tensor)]
    if name in DIVIDING and not any(each.dtype.is_floating_point for each in tensors):
        divisor = values[0 if name.startswith("__r") else 1]
        return not (isinstance(divisor, int) and divisor)
    if name == "__getitem__" and all(each.dtype is torch.bool for each in tensors[1:]):
        tensors = tensors[:1]
    numbers = [each for each in values if isinstance(each, (SymInt, SymFloat, SymBool))]
    if not any(map(free_unbacked_symbols, (*tensors, *numbers))):
        return False
    return name not in TOTAL or len({str(each.shape) for each in tensors if each.dim()}) > 1


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8)


def _is_of_data(index: Any) -> bool:
    if isinstance(index, Tensor):
        return index.dtype not in (torch.bool, torch.uint8)
    return isinstance(index, SymInt) and bool(free_unbacked_symbols(index))


def _note_layout(guards: list[Guard], x: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> None:
    """Note guards for what decides on whether a tensor is contiguous: sizes of 1, and strides that fit the sizes."""
    numbers = [each for each in (*x.shape, *x.stride()) if isinstance(each, SymInt)]
    line = line_that_asks() if numbers else None
    if line is None or kind_of(line[0]) != USER:
        return
    env = numbers[0].node.shape_env
    free: set[Any] = set().union(*(unfolded(sympy.sympify(size_of(each))).free_symbols for each in numbers))
    example = {each: sympy.sympify(env.backed_var_to_val.get(each, HINT)) for each in free}
    answer = _is_contiguous(x, example, memory_format)
    others: list[frozenset[Any]] = []
    if len(free) <= MOST_ONES:  # a channels_last image is contiguous once it is one pixel
        counts: Sequence[int] = range(1, len(free) + 1)
    else:
        counts = (1, len(free))
    for count in counts:
        for ones in map(frozenset, combinations(sorted(free, key=str), count)):
            sizes = example | dict.fromkeys(ones, sympy.S.One)
            if not any(each <= ones for each in others) and _is_contiguous(x, sizes, memory_format) != answer:
                others.append(ones)
    if len(free) > MOST_ONES and frozenset(free) in others:  # some of them may do
        others = [frozenset({symbol}) for symbol in sorted(free, key=str)]
    for ones in others:
        several: list[Any] = [sympy.Ne(symbol, 1) for symbol in ones]
        condition = sympy.Or(*several)
        guards.append(Guard(condition, env, place_of_asker(), by_user=True, counted=False, about_layout=False))
    if memory_format is torch.contiguous_format:
        fitting = {each: bool(each.subs(example)) for each in contiguity(x)}
        held = [each for each, holds in fitting.items() if holds]
        broken = [sympy.Not(each) for each, holds in fitting.items() if not holds]
        for condition in held if answer else broken[:1]:
            guards.append(Guard(condition, env, place_of_asker(), by_user=True, counted=False, about_layout=False))


MOST_ONES = 6
"""Sizes that may be 1 together: a volume has five axes. Of more, none may be, if all together change the answer."""

HINT = 3
"""Example value of a size that depends on data."""


def _is_contiguous(x: Tensor, sizes: Mapping[Any, Any], memory_format: torch.memory_format) -> bool:
    """Return what a tensor would tell at these sizes."""

    def at(numbers: Sequence[Any]) -> list[int]:
        return [int(unfolded(sympy.sympify(size_of(each))).subs(sizes)) for each in numbers]

    return torch.empty_strided(at(x.shape), at(x.stride()), device="meta").is_contiguous(memory_format=memory_format)
