"""The precision that a formula of several steps is computed in, where it is not that of its operands."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

import onnx_ir as ir

from fxport.exporter.lower.builder import Op
from fxport.exporter.lower.dtypes import FLOATS, HALVES

Body = Callable[..., Any]


def in_float(body: Body) -> Body:
    """A lowering whose float16 and bfloat16 operands are float32 inside: as in PyTorch, only the result is rounded."""
    return _computed_in(ir.DataType.FLOAT, HALVES, body)


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
