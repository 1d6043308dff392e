"""Functions of one variable as tables of polynomials, computed here from their definitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath
import numpy as np
import onnx_ir as ir
from numpy.polynomial import chebyshev, polynomial

from fxport.exporter.lowering.lower.builder import Op, Value

DIGITS = 40
"""Decimal digits with which a function is computed for its table."""


@dataclass(frozen=True, slots=True)
class Table:
    """A smooth function on [low, high], to be interpolated by polynomials on `pieces` intervals of equal length.

    `function` takes and returns mpmath numbers; it is asked between the ends, never at them. `degree` is chosen with
    `pieces` so that the interpolation is good to 1e-12 of the function's size on a piece; a test measures it.
    """

    function: Callable[[Any], Any]
    low: float
    high: float
    pieces: int = 32
    degree: int = 8


@cache
def coefficients(table: Table) -> np.ndarray:
    """[degree + 1, pieces]: for each piece the coefficients of powers of u, which runs from 0 to 1 across the piece."""
    count = table.degree + 1
    nodes = chebyshev.chebpts1(count)
    width = (table.high - table.low) / table.pieces
    starts = table.low + width * np.arange(table.pieces)
    with mpmath.workdps(DIGITS):
        values = [[float(table.function(mpmath.mpf(x))) for x in start + width * (nodes + 1) / 2] for start in starts]
    series = np.linalg.solve(chebyshev.chebvander(nodes, table.degree), np.array(values).T)
    to_unit = np.array([-1.0, 2.0])  # u in [0, 1] to the Chebyshev variable in [-1, 1]
    return np.stack([_composed(chebyshev.cheb2poly(column), to_unit, count) for column in series.T], axis=1)


def _composed(outer: np.ndarray, inner: np.ndarray, count: int) -> np.ndarray:
    """The coefficients of outer(inner(u)), padded with zeros."""
    result = np.zeros(1)
    for coefficient in outer[::-1]:
        result = polynomial.polyadd(polynomial.polymul(result, inner), [coefficient])
    return np.pad(result, (0, count))[:count]


def evaluate(op: Op, table: Table, x: Value) -> Value:
    """The table's function of a DOUBLE value: the coefficients are gathered by the piece that each element falls into.

    Beyond the ends the outermost polynomials go on. NaN stays NaN.
    """
    scaled = op.Mul(op.Sub(x, table.low) if table.low else x, table.pieces / (table.high - table.low))
    piece = op.Clip(op.Cast(scaled, to=ir.DataType.INT64), op.const(0), op.const(table.pieces - 1))
    u = op.Sub(scaled, op.Cast(piece, to=ir.DataType.DOUBLE))
    highest, *lower = coefficients(table)[::-1]
    result = op.Gather(op.const(highest), piece)
    for row in lower:
        result = op.Add(op.Mul(result, u), op.Gather(op.const(row), piece))
    return result
