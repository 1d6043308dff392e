"""Generated pointwise calls: over dtypes that mix, broadcasts, NaN, infinity, signed zeros, 0-d and empty tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.agreement import agree, shapes, tensor

aten = torch.ops.aten
SEEDS = st.integers(0, 9)
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ANY = st.sampled_from((*FLOATING, *INTEGERS, torch.bool))
WIDE = st.sampled_from((torch.float32, torch.float64))
WHOLE = st.sampled_from((*INTEGERS, torch.bool))
NUMBERS = st.sampled_from((0, 1, -1, 2, 3, -7, 0.5, -0.0, 1.5, -2.5, float("inf"), float("nan"), True))
PECULIAR = torch.tensor(
    [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.5], dtype=torch.float64
)


@dataclass(frozen=True)
class Operands:
    """Tensors that broadcast with each other."""

    tensors: tuple[torch.Tensor, ...]


@st.composite
def operands(draw: st.DrawFn, count: int, dtypes: st.SearchStrategy[torch.dtype]) -> Operands:
    """Each lacks some of the first axes and has the size 1 in some of the others."""
    shape = draw(shapes(0, 3, 4))
    made = []
    for _ in range(count):
        own = [1 if draw(st.integers(0, 3)) == 0 else size for size in shape]
        made.append(peculiar(tensor(own[draw(st.integers(0, len(own))) :], draw(dtypes), draw(SEEDS)), draw(SEEDS)))
    return Operands(tuple(made))


def peculiar(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Every third element is NaN, infinite, a zero of either sign or a round number; integers stay small."""
    if x.dtype == torch.bool:
        return x
    if not x.is_floating_point():
        return (x % 16).to(x.dtype) if x.dtype == torch.uint8 else (x % 17 - 8).to(x.dtype)
    generator = torch.Generator().manual_seed(seed)
    drawn = PECULIAR[torch.randint(0, len(PECULIAR), x.shape, generator=generator)].to(x.dtype)
    return torch.where(torch.rand(x.shape, generator=generator) < 0.3, drawn, x * 2)


def _chosen(*names: str) -> st.SearchStrategy[Callable[..., Any]]:
    return st.sampled_from([getattr(torch, name) for name in names])


ARITHMETIC = _chosen(
    "add", "sub", "mul", "div", "true_divide", "maximum", "minimum", "fmax", "fmin", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_xor", "copysign", "heaviside", "hypot", "atan2", "nextafter", "logaddexp",
    "xlogy", "isclose", "float_power",
)  # fmt: skip
DIVISION = _chosen("floor_divide", "remainder", "fmod")
BITS = _chosen("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")
ROUNDING = _chosen(
    "floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "abs", "neg", "positive", "square", "signbit", "relu",
    "isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num", "logical_not", "clone", "zeros_like",
)  # fmt: skip
FUNCTIONS = _chosen(
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sigmoid", "erf", "erfc", "sinc", "logit",
    "rad2deg", "deg2rad",
)  # fmt: skip
TO_NUMBERS = _chosen("add", "sub", "mul", "div", "eq", "ne", "lt", "ge", "xlogy")
TYPES = st.sampled_from((*FLOATING, *INTEGERS, torch.bool))


@given(ARITHMETIC, operands(2, ANY), st.booleans())
def test_two_tensors(function: Callable[..., Any], what: Operands, dynamic: bool) -> None:
    agree(function, *what.tensors, dynamic=dynamic)


@given(TO_NUMBERS, operands(1, ANY), NUMBERS, st.booleans())
def test_tensor_and_number(function: Callable[..., Any], what: Operands, number: Any, dynamic: bool) -> None:
    agree(lambda x: function(x, number), *what.tensors, dynamic=dynamic)


@given(DIVISION, operands(2, WIDE | WHOLE), st.booleans())
def test_division(function: Callable[..., Any], what: Operands, dynamic: bool) -> None:
    """Of integers by 0 PyTorch raises, or leaves the result open: there is none here."""
    first, second = what.tensors
    second = second if second.is_floating_point() else torch.where(second == 0, torch.ones_like(second), second)
    agree(function, first, second, dynamic=dynamic)


@given(BITS, operands(2, WHOLE), st.booleans())
def test_bits(function: Callable[..., Any], what: Operands, dynamic: bool) -> None:
    agree(function, *what.tensors, dynamic=dynamic)


@given(ROUNDING, operands(1, ANY), st.booleans())
def test_rounding(function: Callable[..., Any], what: Operands, dynamic: bool) -> None:
    agree(function, *what.tensors, dynamic=dynamic)


@given(FUNCTIONS, operands(1, WIDE | WHOLE), st.booleans())
def test_functions(function: Callable[..., Any], what: Operands, dynamic: bool) -> None:
    agree(function, *what.tensors, dynamic=dynamic)


@given(operands(3, ANY), st.booleans())
def test_choice(what: Operands, dynamic: bool) -> None:
    condition, first, second = what.tensors
    agree(lambda c, a, b: torch.where(c > 0, a, b), condition, first, second, dynamic=dynamic)


@given(operands(3, ANY), st.booleans())
def test_clamp_by_tensors(what: Operands, dynamic: bool) -> None:
    agree(torch.clamp, *what.tensors, dynamic=dynamic)


@given(operands(1, ANY), st.none() | NUMBERS, st.none() | NUMBERS, st.booleans())
def test_clamp(what: Operands, low: Any, high: Any, dynamic: bool) -> None:
    agree(lambda x: torch.clamp(x, low, high), *what.tensors, dynamic=dynamic)


@given(operands(1, st.sampled_from((*FLOATING, *INTEGERS, torch.bool))), TYPES, st.booleans())
def test_cast(what: Operands, dtype: torch.dtype, dynamic: bool) -> None:
    """Of what an integer cannot hold C leaves the result open: there is none of that here."""
    (x,) = what.tensors
    kept = x if dtype.is_floating_point or dtype == torch.bool else x.nan_to_num(1.0, 2.0, 3.0)
    kept = kept.abs() if dtype == torch.uint8 and kept.dtype != torch.bool else kept
    agree(lambda x: x.to(dtype), kept, dynamic=dynamic)
