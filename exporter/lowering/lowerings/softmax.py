"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import axis_of
from fxport.exporter.lowering.lowerings.reduce import reduced

aten = torch.ops.aten


@lowering(aten.softmax.int)
def softmax(op: Op, x: Value, dim: int, dtype: ir.DataType | None = None) -> Value:
    """softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return _along(op, x, dim, lambda x, axis: op.Softmax(x, axis=axis))


@lowering(aten._softmax.default)
def softmax_core(op: Op, x: Value, dim: int, half_to_float: bool) -> Value:
    """_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return _along(op, x, dim, lambda x, axis: op.Softmax(x, axis=axis))


@lowering(aten.log_softmax.int)
def log_softmax(op: Op, x: Value, dim: int, dtype: ir.DataType | None = None) -> Value:
    """log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"""
    return _along(op, x, dim, lambda x, axis: _log_softmax(op, x, axis))


@lowering(aten._log_softmax.default)
def log_softmax_core(op: Op, x: Value, dim: int, half_to_float: bool) -> Value:
    """_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor"""
    return _along(op, x, dim, lambda x, axis: _log_softmax(op, x, axis))


def _along(op: Op, x: Value, dim: int, function: Callable[[Value, int], Value]) -> Value:
    """In the dtype of the result, to which PyTorch casts first. ONNX asks for at least one axis."""
    x = op.cast(x, op.out.dtype)
    if op.rank(x):
        return function(x, axis_of(dim, op.rank(x)))
    return op.reshape(function(op.reshape(x, [1]), 0), [])


def _log_softmax(op: Op, x: Value, axis: int) -> Value:
    """Of doubles written out: where there is an infinity, ONNX Runtime's kernel does not make all elements NaN."""
    if x.dtype != ir.DataType.DOUBLE:
        return op.LogSoftmax(x, axis=axis)
    below = op.typed(op.Sub(x, reduced(op, "ReduceMax", x, axis, keepdim=True)), op.sizes(x))
    powers = op.typed(op.Exp(below), op.sizes(x))
    return op.Sub(below, op.Log(reduced(op, "ReduceSum", powers, axis, keepdim=True)))
