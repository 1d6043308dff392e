"""The special functions against their definitions in many digits: PyTorch's own are not always as good."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from fxport.exporter.lowering.lowerings import airy, bessel, error_function, modified_bessel
from fxport.exporter.lowering.lowerings.piecewise import Table, coefficients
from tests.running import run_exported

special = torch.special

TABLES = [
    pytest.param(table, id=f"{module.__name__.rpartition('.')[2]}-{name}-{number}")
    for module in (airy, bessel, error_function, modified_bessel)
    for name, value in vars(module).items()
    for number, table in enumerate(value if isinstance(value, tuple) else (value,))
    if isinstance(table, Table)
]

Function = Callable[[torch.Tensor], torch.Tensor]

FUNCTIONS: dict[Function, tuple[float, float, Callable[[Any], Any]]] = {
    torch.erfc: (-4.0, 9.0, mpmath.erfc),
    special.erfcx: (-4.0, 50.0, lambda x: mpmath.exp(x * x) * mpmath.erfc(x)),
    torch.erfinv: (-0.9999, 0.9999, mpmath.erfinv),
    special.ndtri: (1e-6, 0.99, lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1)),
    torch.lgamma: (0.01, 90.0, mpmath.loggamma),
    torch.digamma: (-9.0, 90.0, mpmath.digamma),
    special.bessel_j0: (-40.0, 40.0, lambda x: mpmath.besselj(0, x)),
    special.bessel_j1: (-40.0, 40.0, lambda x: mpmath.besselj(1, x)),
    special.bessel_y0: (0.01, 40.0, lambda x: mpmath.bessely(0, x)),
    special.bessel_y1: (0.01, 40.0, lambda x: mpmath.bessely(1, x)),
    torch.i0: (-40.0, 40.0, lambda x: mpmath.besseli(0, x)),
    special.i1: (-40.0, 40.0, lambda x: mpmath.besseli(1, x)),
    special.i0e: (-99.0, 99.0, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))),
    special.i1e: (-99.0, 99.0, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))),
    special.modified_bessel_k0: (0.01, 40.0, lambda x: mpmath.besselk(0, x)),
    special.modified_bessel_k1: (0.01, 40.0, lambda x: mpmath.besselk(1, x)),
    special.scaled_modified_bessel_k0: (0.01, 99.0, lambda x: mpmath.besselk(0, x) * mpmath.exp(x)),
    special.scaled_modified_bessel_k1: (0.01, 99.0, lambda x: mpmath.besselk(1, x) * mpmath.exp(x)),
    special.airy_ai: (-20.0, 9.0, mpmath.airyai),
    partial(torch.polygamma, 1): (-9.0, 40.0, lambda x: mpmath.polygamma(1, x)),
    partial(torch.polygamma, 4): (-9.0, 40.0, lambda x: mpmath.polygamma(4, x)),
    partial(special.zeta, 3.0): (-9.0, 40.0, lambda x: mpmath.zeta(3, x)),
    partial(special.zeta, other=0.75): (1.01, 40.0, lambda s: mpmath.zeta(s, 0.75)),
    partial(torch.igamma, torch.tensor(2.5)): (0.01, 30.0, lambda x: mpmath.gammainc(2.5, 0, x, regularized=True)),
    partial(torch.igammac, torch.tensor(2.5)): (0.01, 60.0, lambda x: mpmath.gammainc(2.5, x, regularized=True)),
    partial(special.legendre_polynomial_p, n=9): (-1.0, 1.0, lambda x: mpmath.legendre(9, x)),
    partial(special.hermite_polynomial_he, n=5): (-4.0, 4.0, lambda x: mpmath.hermite(5, x / 2**0.5) / 2**2.5),
}
"""Function of PyTorch → where to ask it, and its definition."""

POINTS = 60
HALF_ULP = 0.5000001
"""Rounding from float64 is correct but for what lies within a table's error of a tie."""


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_good_to_13_digits_of_the_largest_value_near_by(table: Table) -> None:
    rng = np.random.default_rng(0)
    places = rng.uniform(0, table.pieces, 4 * table.pieces)
    width = (table.high - table.low) / table.pieces
    rows = coefficients(table)
    with mpmath.workdps(40):
        for piece in range(table.pieces):
            inside = [place - piece for place in places if int(place) == piece]
            want = [float(table.function(mpmath.mpf(table.low + (piece + u) * width))) for u in inside]
            got = [np.polynomial.polynomial.polyval(u, rows[:, piece]) for u in inside]
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-13 * max(map(abs, want), default=0))


class Called(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def named(function: Function) -> str:
    return function.func.__name__ if isinstance(function, partial) else function.__name__


@pytest.mark.parametrize("function", FUNCTIONS, ids=named)
def test_a_float32_result_is_the_nearest_float32(function: Function) -> None:
    low, high, definition = FUNCTIONS[function]
    x = torch.tensor(np.random.default_rng(1).uniform(low, high, POINTS).astype(np.float32))
    ((got,),) = run_exported(Called(function), [(x,)])
    with mpmath.workdps(30):
        want = [definition(mpmath.mpf(float(each))) for each in x]
        ulps = [
            float(abs(mpmath.mpf(float(a)) - b) / float(np.spacing(np.float32(abs(float(b))))))
            for a, b in zip(got, want, strict=True)
        ]
    assert max(ulps) < HALF_ULP
