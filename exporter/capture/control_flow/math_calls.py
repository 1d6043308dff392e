"""Functions of `math` and their like in NumPy, of numbers that only data or a size tells."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from fxport.exporter.capture.control_flow.number_lists import product_of, rows_of
from fxport.exporter.capture.control_flow.truth import depends_on_data
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.guards.caught import require_uncaught
from fxport.exporter.capture.patches.arithmetic import real_of
from fxport.exporter.capture.patches.numbers import double
from fxport.exporter.capture.patches.symbolic_calls import CURVES
from fxport.fx_passes.cube_root import cbrt

SYMBOLIC = (SymInt, SymFloat, SymBool)


def content(value: Any) -> Any:
    """Return the content of a tensor of one element; other values as they are."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _require_domain(*values: Any) -> None:
    """Raise RefusedError where the model would catch that a function is not defined for a number from data."""
    if any(map(depends_on_data, values)):
        for kind in (ValueError, OverflowError):
            require_uncaught(kind)


def _are_symbolic(values: Any) -> bool:
    return any(isinstance(value, SYMBOLIC) for value in values)


def _function(function: Callable[..., Any], symbolic: Callable[[Any], Any]) -> Callable[..., Any]:
    """Join a function of one number with its form for symbolic numbers."""

    def made(value: Any, *rest: Any, **kwargs: Any) -> Any:
        if rest or kwargs or not isinstance(content(value), SYMBOLIC):
            return function(value, *rest, **kwargs)
        value = content(value)
        _require_domain(value)
        return symbolic(value)

    return made


def _by_tensors(function: Callable[..., Any], of_tensors: Callable[..., Any]) -> Callable[..., Any]:
    """Join a function of numbers with that of tensors which computes the same of doubles."""

    def made(*values: Any, **options: Any) -> Any:
        values = tuple(map(content, values))
        if not _are_symbolic((*values, *options.values())):
            return function(*values, **options)
        _require_domain(*values)
        found = of_tensors(*map(double, values), **options)
        return tuple(each.item() for each in found) if isinstance(found, tuple) else found.item()

    return made


def _of_content(function: Callable[..., Any]) -> Callable[..., Any]:
    """Join a function that takes symbolic numbers with its form for tensors of one element."""
    return lambda value: function(content(value))


def _log(value: Any, base: Any = None) -> Any:
    """By a tensor: PyTorch has no logarithm of a symbolic number that a graph may hold."""
    value, base = content(value), content(base)
    if not _are_symbolic((value, base)):
        return math.log(value) if base is None else math.log(value, base)
    _require_domain(value, base)
    found = double(value).log()
    if _are_symbolic((base,)):
        return (found / double(base).log()).item()
    return found.item() / (1.0 if base is None else math.log(base))


def _log2(value: Any) -> Any:
    """Compute the logarithm by a tensor; that of a size is not negative, so that powers of it are whole."""
    found = _by_tensors(math.log2, torch.log2)(value)
    is_size = isinstance(value, SymInt) and statically_known_true(value >= 0)
    return torch.sym_max(found, 0.0) if is_size else found


def _divisor(*values: Any) -> Any:
    """Return the greatest common divisor, as `math.gcd` does."""
    if not _are_symbolic(values):
        return math.gcd(*values)
    return functools.reduce(torch.gcd, (torch.scalar_tensor(value, dtype=torch.int64) for value in (0, *values))).item()


def _multiple(*values: Any) -> Any:
    """Return the least common multiple, as `math.lcm` does: 0 if one of the numbers is."""
    if not _are_symbolic(values):
        return math.lcm(*values)
    return functools.reduce(lambda a, b: abs(a * b) // torch.sym_max(_divisor(a, b), 1), values, 1)


def _exp(value: Any) -> Any:
    """Compute the exponential of data by a tensor; of a size as a power, of which PyTorch knows that sizes give it."""
    if depends_on_data(value):
        return double(value).exp().item()
    return math.e ** torch.sym_float(value)


def _product(function: Callable[..., Any], values: Any, *rest: Any, **kwargs: Any) -> Any:
    if (rows := rows_of(values)) is not None and not rest:
        return product_of(rows, kwargs.get("start", 1))
    listed = isinstance(values, (list, tuple)) and not rest and not kwargs
    if listed and _are_symbolic(values):
        return functools.reduce(operator.mul, values, 1)
    return function(values, *rest, **kwargs)


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the fraction and the whole part of a number, both with its sign; infinity has no fraction."""
    whole = x.trunc()
    rest = torch.where(x.isinf(), torch.zeros_like(x), x - whole)
    return torch.where(x.isnan(), x, rest.copysign(x)), whole


def _scaled(x: Tensor, exponent: Tensor) -> Tensor:
    """Return `x * 2 ** exponent` in two steps, of which neither is too large where the result is not."""
    half = (exponent / 2).floor()
    return x * torch.exp2(half) * torch.exp2(exponent - half)


def _mantissa(value: Any) -> Any:
    """Return a number as a fraction of at least a half and below 1, and the power of two to multiply it by."""
    value = content(value)
    if not isinstance(value, SYMBOLIC):
        return math.frexp(value)
    x = double(value)
    is_plain = x.isfinite() & (x != 0)
    some = torch.where(is_plain, x, torch.ones_like(x))
    power = some.abs().log2().floor() + 1
    rest = _scaled(some, -power)
    power = power + (rest.abs() >= 1).double() - (rest.abs() < 0.5).double()  # the logarithm is rounded
    none = torch.zeros_like(power)
    found = torch.where(is_plain, _scaled(some, -power), x), torch.where(is_plain, power, none).long()
    return tuple(each.item() for each in found)


def _length(*parts: Tensor) -> Tensor:
    return functools.reduce(torch.hypot, parts, torch.zeros((), dtype=torch.float64))


def _distance(one: Any, other: Any) -> Any:
    one, other = ([content(each) for each in many] for many in (one, other))
    if not _are_symbolic((*one, *other)):
        return math.dist(one, other)
    return _by_tensors(math.hypot, _length)(*(a - b for a, b in zip(one, other, strict=True)))


def _is_close(a: Tensor, b: Tensor, *, rel_tol: Any = 1e-9, abs_tol: Any = 0.0) -> Tensor:
    gap, (rel, least) = (a - b).abs(), map(double, (rel_tol, abs_tol))
    near = (gap <= (rel * b).abs()) | (gap <= (rel * a).abs()) | (gap <= least)
    return (a == b) | (near & a.isfinite() & b.isfinite())


def _factorial(value: Any) -> Any:
    """Return the factorial, of the numbers of which int64 holds it; the file ends a run for larger ones."""
    value = content(value)
    if not isinstance(value, (SymInt, SymBool)):
        return math.factorial(value)
    _require_domain(value)
    if isinstance(value, SymInt) and not depends_on_data(value) and value > MOST_FACTORIAL:
        return math.factorial(int(value))
    table = torch.tensor([math.factorial(n) for n in range(MOST_FACTORIAL + 1)])
    return table[double(value).long()].item()


MOST_FACTORIAL = 20
"""The largest number of which the factorial is in the range of int64."""


def _subsets(n: Any, k: Any) -> Any:
    """Return `math.comb(n, k)`, of a plain `k`: a product of which each step is whole."""
    n, k = content(n), content(k)
    if not _are_symbolic((n, k)):
        return math.comb(n, k)
    _require_few("comb", n, k)
    return functools.reduce(lambda found, i: found * (n - i) // (i + 1), range(k), 1)


def _orders(n: Any, k: Any = None) -> Any:
    """Return `math.perm(n, k)`, of a plain `k`."""
    n, k = content(n), content(k)
    if k is None:
        return _factorial(n)
    if not _are_symbolic((n, k)):
        return math.perm(n, k)
    _require_few("perm", n, k)
    return functools.reduce(lambda found, i: found * (n - i), range(k), 1)


def _require_few(name: str, n: Any, k: Any) -> None:
    _require_domain(n)
    if type(k) is not int or k > MOST_FACTORS:
        _refuse(f"its `math.{name}` is the product of as many numbers as data tell, or of many")


MOST_FACTORS = 32


def _refused(function: Callable[..., Any], reason: str) -> Callable[..., Any]:
    """Refuse a function of numbers from data, of which no operators compute the same."""

    def made(*values: Any, **options: Any) -> Any:
        given = [each for value in values for each in (value if isinstance(value, (list, tuple)) else [value])]
        if rows_of(values[0]) is None and not _are_symbolic(map(content, given)):
            return function(*values, **options)
        return _refuse(f"it calls `math.{function.__name__}`, {reason}")

    return made


def _refuse(reason: str) -> NoReturn:
    raise RefusedError(reason, by_values=True)


ROUNDED_ONCE = "which rounds once: operators round at each step"
NEIGHBOURS = "which looks at the bits of a float"
NO_OPERATOR = "for which there is no operator"

UNAVAILABLE: Mapping[str, str] = {
    **dict.fromkeys(("fsum", "sumprod", "remainder", "fma"), ROUNDED_ONCE),
    **dict.fromkeys(("nextafter", "ulp"), NEIGHBOURS),
    **dict.fromkeys(("gamma", "lgamma"), NO_OPERATOR),
}
"""Functions of `math`, some of them of later versions of Python, and why a number from data is refused."""

OF_DOUBLES = (
    *("isnan", "isinf", "isfinite", "log10", "log1p", "expm1", "erf", "erfc"),
    *("copysign", "fmod", "atan2", "asinh", "acosh", "atanh", "exp2"),
)
"""Functions that `math` and PyTorch have under one name."""

_sqrt, _floor, _ceil = torch.sym_sqrt, math.floor, math.ceil

OF_NUMBERS: Mapping[Any, Callable[..., Any]] = {
    math.sqrt: _function(math.sqrt, _sqrt),
    math.log: _log,
    math.exp: _function(math.exp, _exp),
    math.degrees: _function(math.degrees, lambda value: value * (180 / math.pi)),
    math.radians: _function(math.radians, lambda value: value * (math.pi / 180)),
    real_of(math.pow): lambda base, exponent: torch.sym_float(base) ** torch.sym_float(exponent),
    math.gcd: _divisor,
    math.lcm: _multiple,
    math.isqrt: _function(math.isqrt, lambda value: math.floor(_sqrt(value))),
    math.prod: functools.partial(_product, math.prod),
    **{plain: _function(plain, symbolic) for plain, symbolic in CURVES.items()},
    **{getattr(math, name): _by_tensors(getattr(math, name), getattr(torch, name)) for name in OF_DOUBLES},
    **{
        getattr(math, name): _refused(getattr(math, name), reason)
        for name, reason in UNAVAILABLE.items()
        if hasattr(math, name)
    },
    **{function: _of_content(function) for function in (math.floor, math.ceil, math.trunc)},
    math.fabs: _by_tensors(math.fabs, torch.abs),
    math.cbrt: _by_tensors(math.cbrt, cbrt),
    math.modf: _by_tensors(math.modf, _parts),
    math.ldexp: _by_tensors(math.ldexp, _scaled),
    math.frexp: _mantissa,
    math.hypot: _by_tensors(math.hypot, _length),
    math.dist: _distance,
    math.isclose: _by_tensors(math.isclose, _is_close),
    math.factorial: _factorial,
    math.comb: _subsets,
    math.perm: _orders,
    np.log: _function(np.log, _log),
    np.sqrt: _function(np.sqrt, _sqrt),
    math.log2: _log2,
    np.log2: _function(np.log2, _log2),
    np.log10: _function(np.log10, _by_tensors(math.log10, torch.log10)),
    np.floor: _function(np.floor, _floor),
    np.ceil: _function(np.ceil, _ceil),
    np.prod: functools.partial(_product, np.prod),
}
"""By the functions that the model calls; `real_of`, as this may be read in a trace."""
