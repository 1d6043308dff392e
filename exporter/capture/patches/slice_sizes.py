"""Sizes of slices, where PyTorch takes that of the example's side alone, or has no number for it.

x[:, -16:]           of 4 elements in the example: it takes all of them, and limits the axis to 15
x[i * 8 : i * 8 + 16]    in the turns of a loop: it does not see that all of them are within the axis
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import sympy
import torch
from torch import SymInt
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.utils._sympy.functions import Max
from torch.utils._sympy.numbers import int_oo

from fxport.exporter.capture.sizes.implied import follows
from fxport.fx_passes.sizes import size_of, unfolded

aten = torch.ops.aten

ENDLESS = 1 << 62
"""A bound from here on means the end of the axis."""


@contextmanager
def slices_sized() -> Iterator[None]:
    """Give slices the size that they have for any size of the axis, where that can be told."""
    table: Any = fake_impls.op_implementations_dict
    plain = table.get(aten.slice.Tensor)
    if plain is None:
        yield
        return

    def fake(
        mode: Any, func: Any, x: FakeTensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
    ) -> Any:
        axis = dim % x.dim() if x.dim() else 0
        found = _found(x.shape[axis], start, end) if x.dim() and type(step) is int and step > 0 else None
        if found is None or x.is_quantized:
            return _with_size(plain(mode, func, x, dim, start, end, step), axis, (*x.shape, start, end))
        first, count = found
        sizes, strides = [*x.shape], [*x.stride()]
        offset = x.storage_offset() + first * strides[axis]
        sizes[axis], strides[axis] = (count + step - 1) // step, strides[axis] * step
        return x.as_strided(sizes, strides, offset)

    with mock.patch.dict(table, {aten.slice.Tensor: fake}):
        yield


def _with_size(part: Any, axis: int, given: Iterable[Any]) -> Any:
    """Let the size that PyTorch has made for a slice count as one, and not as any number that data tells."""
    made = part.shape[axis] if part.dim() else None
    if isinstance(made, SymInt):
        before = {symbol for each in given if isinstance(each, SymInt) for symbol in free_unbacked_symbols(each)}
        made.node.shape_env.size_like |= free_unbacked_symbols(made) - before
    return part


def _found(size: Any, start: Any, end: Any) -> tuple[Any, Any] | None:
    """Return where a slice begins and the number of places to its end; None where PyTorch is to tell."""
    if any(isinstance(each, SymInt) and free_unbacked_symbols(each) for each in (start, end)):
        return _inside(size, 0 if start is None else start, end)
    if isinstance(size, SymInt) and size.node.has_hint() and _is_short(size, start, end):
        return _clamped(size, 0 if start is None else start, end)
    return None


# Bounds within the axis -----------------------------------------------------------------------------------------------


def _inside(size: Any, start: Any, end: Any) -> tuple[Any, Any] | None:
    """Return the same for bounds that are within the axis whatever the numbers from data in them are."""
    env = next(each.node.shape_env for each in (start, end) if isinstance(each, SymInt))
    numbers = {symbol for each in (start, end) if isinstance(each, SymInt) for symbol in free_unbacked_symbols(each)}
    if not any(_checked_below(symbol, env) for symbol in numbers):
        return None
    end = size if end is None or (type(end) is int and end >= ENDLESS) else end
    first, last, whole = (sympy.sympify(size_of(each)) for each in (start, end, size))
    is_within = all(_is_at_most_zero(each, env) for each in (-first, first - last, last - whole))
    return (start, end - start) if is_within else None


def _is_at_most_zero(expr: Any, env: Any, replaced: frozenset[Any] = frozenset()) -> bool:
    """Return whether an expression is 0 or less, by the limits of the numbers from data in it, such as those of turns.

    `replaced` are the numbers in whose place their limits stand already.
    """
    expr = sympy.expand(unfolded(expr))
    for symbol in free_unbacked_symbols(expr):
        factor = expr.coeff(symbol)
        rest = sympy.expand(expr - factor * symbol)
        if not factor.is_number or symbol in rest.free_symbols or symbol in replaced:
            return False
        limits = _above(symbol, env) if factor > 0 else [env.var_to_range[symbol].lower]
        found = [rest + factor * each for each in limits if each not in (int_oo, -int_oo)]
        return any(_is_at_most_zero(each, env, replaced | {symbol}) for each in found)
    # A size may be 1, of which PyTorch traces none, and its ranges begin at 2.
    ranges = {each: env.var_to_range[each] for each in expr.free_symbols if each in env.var_to_range}
    return follows(expr, [sympy.Ge(each, min(found.lower, 1)) for each, found in ranges.items()])


def _above(symbol: Any, env: Any) -> list[Any]:
    """Return what a number is not above: its range has a limit, or the capture has checked that it is below a size."""
    limits = env.var_to_range[symbol]
    return [limits.upper, *(_without_floor(each, limits.lower) - 1 for each in _checked_below(symbol, env))]


def _checked_below(symbol: Any, env: Any) -> list[Any]:
    """Return the sizes that the capture has checked a number to be below, as that of a turn is."""
    checked = [each.expr for each in env.deferred_runtime_asserts.get(symbol, ())]
    below = [each.rhs for each in checked if isinstance(each, sympy.StrictLessThan) and each.lhs == symbol]
    return [*below, *(each.lhs for each in checked if isinstance(each, sympy.StrictGreaterThan) and each.rhs == symbol)]


def _without_floor(expr: Any, lower: Any) -> Any:
    """Return what `Max(0, expr)` is of, where a number of 0 or more is below it: no turn runs where it is 0."""
    match expr:
        case Max(args=(floor, other)) if floor.is_number and floor <= lower:
            return other
    return expr


# Bounds beyond the axis in the example --------------------------------------------------------------------------------


def _is_short(size: SymInt, *bounds: Any) -> bool:
    """Return whether both bounds are constants, and the example's axis is shorter than one of them."""
    if any(isinstance(each, SymInt) for each in bounds):
        return False
    counted = [abs(each) for each in bounds if each is not None and abs(each) < ENDLESS]
    return any(size.node.hint < each and not statically_known_true(size <= each) for each in counted)


def _clamped(size: Any, start: int, end: Any) -> tuple[Any, Any]:
    """Return the same as an operator finds it, in the shortest form."""
    first, last = _position(size, start), _position(size, end)
    if start == 0:
        return 0, last
    if last is size:
        return first, torch.sym_min(-start, size) if start < 0 else torch.sym_max(size - start, 0)
    return first, torch.sym_max(last - first, 0)


def _position(size: Any, bound: Any) -> Any:
    if bound is None or bound >= ENDLESS:
        return size
    return torch.sym_min(bound, size) if bound >= 0 else torch.sym_max(size + bound, 0)
