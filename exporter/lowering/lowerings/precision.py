"""The precision that a formula of several steps is computed in, where it is not that of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir

from fxport.exporter.lowering.lower.builder import Op
from fxport.exporter.lowering.lower.dtypes import FLOATS, HALVES
from fxport.fx_passes.sizes import is_symbolic, plain

Body = Callable[..., Any]


def in_float(body: Body) -> Body:
    """A lowering whose float16 and bfloat16 operands are float32 inside: as in PyTorch, only the result is rounded."""
    return _computed_in(ir.DataType.FLOAT, HALVES, body)


def with_whole_numbers(body: Body) -> Body:
    """A lowering of a tensor and a number that is computed in float32 where a half type would round the number.

    PyTorch multiplies and divides halves by the number itself; those that it adds, it rounds first.
    """
    wide = in_float(body)

    @wraps(body)
    def function(op: Op, *args: Any, **kwargs: Any) -> Any:
        numbers = [plain(x) for x in args if not isinstance(x, ir.Value)]
        rounded = op.out.dtype in HALVES and not all(_is_exact(number, op.out.dtype) for number in numbers)
        return (wide if rounded else body)(op, *args, **kwargs)

    return function


def _is_exact(number: Any, dtype: ir.DataType) -> bool:
    """Return True for a number that the dtype holds as it is; a symbolic one may be any."""
    if is_symbolic(number):
        return False
    with np.errstate(over="ignore"):
        held = float(np.float64(number).astype(dtype.numpy()))
    return held == number or math.isnan(number)


def in_double(body: Body) -> Body:
    """A lowering whose floats are float64 inside, for formulas that cancel; the result is rounded once."""
    return _computed_in(ir.DataType.DOUBLE, FLOATS, body)


def _computed_in(dtype: ir.DataType, sources: Collection[ir.DataType], body: Body) -> Body:
    @wraps(body)
    def function(op: Op, *args: Any, **kwargs: Any) -> Any:
        wide = [op.cast(x, dtype) if isinstance(x, ir.Value) and x.dtype in sources else x for x in args]
        result = body(op, *wide, **kwargs)
        return op.cast(result, op.out.dtype) if result.dtype == dtype else result

    return function
