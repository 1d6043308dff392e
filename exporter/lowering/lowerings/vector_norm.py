"""Norms of vectors, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import HALVES
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.extremes import largest, nan_if_any, smallest
from fxport.exporter.lowering.lowerings.reduce import Dims, counted, may_be_empty, reduced

aten = torch.ops.aten

Norm = Callable[[Op, Value, Dims, bool], Value]


def _nonzeros(op: Op, x: Value, dim: Dims, keepdim: bool) -> Value:
    differs = op.typed(op.Cast(op.Not(op.Equal(x, 0)), to=x.dtype), op.sizes(x))
    return reduced(op, "ReduceSum", differs, dim, keepdim)


def _magnitudes(op: Op, x: Value) -> Value:
    return op.typed(op.Abs(x), op.sizes(x))


NORMS: Mapping[float, Norm] = {
    0.0: _nonzeros,
    1.0: lambda op, x, dim, keepdim: reduced(op, "ReduceL1", x, dim, keepdim),
    2.0: lambda op, x, dim, keepdim: reduced(op, "ReduceL2", x, dim, keepdim),
    inf: lambda op, x, dim, keepdim: largest(op, _magnitudes(op, x), dim, keepdim),
    -inf: lambda op, x, dim, keepdim: smallest(op, _magnitudes(op, x), dim, keepdim),
}
"""Orders for which there is something better than powers."""


@lowering(aten.linalg_vector_norm.default)
def linalg_vector_norm(
    op: Op,
    x: Value,
    ord: Scalar = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: ir.DataType | None = None,
) -> Value:
    """linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) \
-> Tensor

    Halves in FLOAT, as PyTorch computes them.
    """
    x = op.cast(x, op.out.dtype)
    if x.dtype in HALVES:
        x = op.cast(x, ir.DataType.FLOAT)
    order = float(ord)  # type: ignore[arg-type]  # ATen takes no symbolic order
    return op.cast(vector_norm(op, x, order, dim, keepdim), op.out.dtype)


def vector_norm(op: Op, x: Value, order: float, dim: Dims, keepdim: bool) -> Value:
    """A norm of floats over axes, in their dtype."""
    if order in NORMS:
        return NORMS[order](op, x, dim, keepdim)
    powers = op.typed(op.Pow(op.Abs(x), order), op.sizes(x))
    return op.Pow(reduced(op, "ReduceSum", powers, dim, keepdim), 1.0 / order)


@lowering(aten.logsumexp.default)
def logsumexp(op: Op, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    """logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    x = op.cast(x, op.out.dtype)
    found = reduced(op, "ReduceLogSumExp", x, dim, keepdim)
    return found if may_be_empty(counted(op, x, dim)) else nan_if_any(op, found, x, dim, keepdim)
