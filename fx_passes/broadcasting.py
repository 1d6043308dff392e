"""Broadcasting of sizes that data decide: nothing is taken for certain that would fail only where PyTorch fails.

PyTorch takes it that neither of two such sizes is 1, so that they are equal, and forgets to check it. Where one of them
is 1, shapes would be wrong, and so would be what they decide.

Private PyTorch API is used here: the functions that broadcast fake tensors.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from itertools import zip_longest
from typing import Any
from unittest import mock

import sympy
import torch
from torch import SymInt, Tensor, _meta_registrations, _refs
from torch._prims_common import is_cpu_scalar_tensor
from torch._refs import _conversions
from torch._subclasses import fake_impls
from torch.fx import experimental
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols, guard_or_false, statically_known_true
from torch.utils._sympy.functions import Where
from torch.utils._sympy.reference import PythonReferenceAnalysis

from fxport.fx_passes.private import BROADCASTING, codes
from fxport.fx_passes.sizes import size_of

Expr = Any
"""An expression of sympy, which has no types."""

Sizes = Sequence[Any]
"""A shape. Any: the stubs know no symbolic sizes."""

Function = Callable[..., Any]

_ASSUMING = codes(BROADCASTING)
"""Functions that check, where they do not know better, that a size is not one that broadcasts."""

_CHECKING = (torch.__file__, *experimental.__path__)
"""Files between `torch._check` and what PyTorch learns from it."""

PythonReferenceAnalysis.where = staticmethod(torch.sym_ite)  # type: ignore[attr-defined]  # PyTorch lacks it


@contextmanager
def broadcasting_unassumed() -> Iterator[None]:
    """Give results of broadcasting the sizes that they have, whether or not one of the operands' sizes is 1."""
    with ExitStack() as stack:
        for owner, name, replacement in REPLACED:
            stack.enter_context(mock.patch.object(owner, name, replacement(getattr(owner, name))))
        yield


# What is replaced -----------------------------------------------------------------------------------------------------


def _of_shapes(original: Function) -> Function:
    def broadcast_shapes(*given: Any) -> Any:
        shapes = [each if isinstance(each, Sequence) else (each,) for each in given if each is not None]
        return _broadcast(shapes) if _is_of_data(*shapes) else original(*given)

    return broadcast_shapes


def _of_two_shapes(original: Function) -> Function:
    def infer_size(a: Sizes, b: Sizes) -> Any:
        return tuple(_broadcast((a, b))) if _is_of_data(a, b) else original(a, b)

    return infer_size


def _in_place(original: Function) -> Function:
    """PyTorch fails where what it writes to would have to grow, so that a size that data decide is taken to fit."""

    def check_inplace_broadcast(shape: Sizes, *given: Sizes) -> None:
        original(shape, *(_fitting(each, shape) for each in given))

    return check_inplace_broadcast


def _of_tensors(original: Function) -> Function:
    """PyTorch's own expands no tensor whose size might be the result's."""

    def maybe_broadcast(*given: Any, preserve_cpu_scalar_tensors: bool = True) -> Any:
        shapes = [each.shape for each in given if isinstance(each, Tensor)]
        if not _is_of_data(*shapes):
            return original(*given, preserve_cpu_scalar_tensors=preserve_cpu_scalar_tensors)
        common = _broadcast(shapes)

        def expanded(each: Any) -> Any:
            if not isinstance(each, Tensor) or (preserve_cpu_scalar_tensors and is_cpu_scalar_tensor(each)):
                return each
            return each if [*map(size_of, each.shape)] == [*map(size_of, common)] else _refs.expand(each, common)

        return tuple(map(expanded, given))

    return maybe_broadcast


def _unlearned(original: Function) -> Function:
    def guard_or_defer_runtime_assert(env: ShapeEnv, condition: Any, *args: Any, **options: Any) -> bool:
        if isinstance(condition, sympy.Eq) and free_unbacked_symbols(condition) and _is_assumed():
            return True
        return original(env, condition, *args, **options)

    return guard_or_defer_runtime_assert


def _is_assumed() -> bool:
    """Return whether the check that is under way is that a size is not one that broadcasts."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_CHECKING):
        frame = frame.f_back
    return frame is not None and frame.f_code in _ASSUMING


def _in_one_form(original: Function) -> Function:
    """PyTorch makes a Piecewise of it, which sympy rewrites."""

    def sym_ite(condition: SymNode, a: SymNode, b: SymNode) -> SymNode:
        if get_proxy_mode() is not None or condition.expr != sympy.Eq(b.expr, 1):
            return original(condition, a, b)
        return SymNode(first_wide(b.expr, a.expr), b.shape_env, int, None)

    return sym_ite


REPLACED: Sequence[tuple[Any, str, Callable[[Function], Function]]] = (
    (_refs, "_broadcast_shapes", _of_shapes),
    (_refs, "_maybe_broadcast", _of_tensors),
    (_meta_registrations, "_broadcast_shapes", _of_shapes),
    (_meta_registrations, "_maybe_broadcast", _of_tensors),
    (_meta_registrations, "check_inplace_broadcast", _in_place),
    (_conversions, "_broadcast_shapes", _of_shapes),
    (fake_impls, "infer_size", _of_two_shapes),
    (SymNode, "_sym_ite", _in_one_form),
    (ShapeEnv, "guard_or_defer_runtime_assert", _unlearned),
)
"""Owner and name of each function, with what makes its replacement."""


# Sizes of results -----------------------------------------------------------------------------------------------------


def _is_of_data(*shapes: Sizes) -> bool:
    sizes = (size for shape in shapes for size in shape if isinstance(size, SymInt) and size.node._hint is None)
    return any(free_unbacked_symbols(size) for size in sizes)


def _broadcast(shapes: Sequence[Sizes]) -> Sizes:
    axes = range(-max(map(len, shapes)), 0)
    return [reduce(_joined, (shape[axis] for shape in shapes if -axis <= len(shape))) for axis in axes]


def _joined(a: Any, b: Any) -> Any:
    """Return the size of the result along an axis."""
    if not _is_of_data((a, b)):
        sizes: Any = _refs._broadcast_shapes((a,), (b,))
        return sizes[0]
    if guard_or_false(a == 1) or guard_or_false(a == b):
        return b
    if guard_or_false(b == 1):
        return a
    wide = [size for size in (a, b) if _is_wide(size)]
    if len(wide) == 2:
        torch._check(a == b)
    return wide[0] if wide else _either(a, b)


def _fitting(shape: Sizes, written: Sizes) -> Sizes:
    """Return a shape without the sizes of which only data tell whether they are those of what is written to."""
    pairs = zip_longest(reversed(shape), reversed(written[-len(shape) :] if len(shape) else ()), fillvalue=1)
    return [1 if _is_of_data(pair) else pair[0] for pair in pairs][::-1]


def _is_wide(size: Any) -> bool:
    """Return whether a size is not 1, also where PyTorch takes for granted that a dynamic one is more."""
    return isinstance(size, int) or (_is_of_data((size,)) and statically_known_true(operator.gt(size, 1)))


def _either(a: Any, b: Any) -> Any:
    """Return the first of two sizes that is not 1."""
    of_a, of_b = (frozenset(_parts(size_of(size))) for size in (a, b))
    if of_a <= of_b:
        return b
    return a if of_b <= of_a else torch.sym_ite(a == 1, b, a)


def first_wide(a: Expr, b: Expr) -> Expr:
    """Write the first of two sizes that is not 1 with the sizes that each is made of in one order, each once."""
    *others, last = sorted({*_parts(a), *_parts(b)}, key=str)
    return reduce(lambda rest, part: Where(sympy.Eq(part, 1), rest, part), reversed(others), last)


def _parts(size: Expr) -> Iterator[Expr]:
    """Yield the sizes of which one is the first that is not 1."""
    while isinstance(size, Where) and size.args[0] == sympy.Eq(size.args[2], 1):
        yield size.args[2]
        size = size.args[1]
    yield size
