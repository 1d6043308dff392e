"""Random numbers: their distributions are those of PyTorch, their values never are."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p, pi

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.random_bits import normal01, uniform01, wide

aten = torch.ops.aten


@lowering(aten.rand.default, aten.rand.generator)
def rand(op: Op, size: Sequence[Size], *, dtype: ir.DataType | None = None) -> Value:
    """rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor"""
    return uniform01(op, size, op.out.dtype)


@lowering(aten.rand_like.default, aten.rand_like.generator)
def rand_like(op: Op, x: Value, *, dtype: ir.DataType | None = None) -> Value:
    """rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return uniform01(op, op.sizes(x), op.out.dtype)


@lowering(aten.uniform.default)
def uniform(op: Op, x: Value, low: float = 0.0, high: float = 1.0) -> Value:
    """uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    number = uniform01(op, op.sizes(x), op.out.dtype)
    return op.Add(op.Mul(number, high - low), low)


@lowering(aten.randn.default, aten.randn.generator)
def randn(op: Op, size: Sequence[Size], *, dtype: ir.DataType | None = None) -> Value:
    """randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor"""
    return normal01(op, size, op.out.dtype)


@lowering(aten.randn_like.default, aten.randn_like.generator)
def randn_like(op: Op, x: Value, *, dtype: ir.DataType | None = None) -> Value:
    """randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return normal01(op, op.sizes(x), op.out.dtype)


@lowering(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def normal(op: Op, mean: Value | float, std: Value | float = 1.0) -> Value:
    """normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    number = normal01(op, op.out.sizes, op.out.dtype)
    return op.Add(op.Mul(number, op.const(std, like=number)), op.const(mean, like=number))


@lowering(aten.normal.float_float)
def normal_of_size(op: Op, mean: float, std: float, size: Sequence[Size], *, dtype: ir.DataType | None = None) -> Value:
    """normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, \
ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return normal(op, mean, std)


@lowering(aten.normal_functional.default)
def normal_functional(op: Op, x: Value, mean: float = 0.0, std: float = 1.0) -> Value:
    """normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return normal(op, mean, std)


@lowering(aten.log_normal.default)
def log_normal(op: Op, x: Value, mean: float = 1.0, std: float = 2.0) -> Value:
    """log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor"""
    number = normal01(op, op.sizes(x), wide(op.out.dtype))
    return op.cast(op.Exp(op.Add(op.Mul(number, std), mean)), op.out.dtype)


@lowering(aten.exponential.default)
def exponential(op: Op, x: Value, lambd: float = 1.0) -> Value:
    """exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    return op.cast(op.Div(_minus_log(op, x), lambd), op.out.dtype)


@lowering(aten.geometric.default)
def geometric(op: Op, x: Value, p: float) -> Value:
    """geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor

    How often one tries until the first success.
    """
    tries = op.Ceil(op.Div(_minus_log(op, x), -log1p(-p)))
    return op.cast(op.Max(tries, 1.0), op.out.dtype)


@lowering(aten.cauchy.default)
def cauchy(op: Op, x: Value, median: float = 0.0, sigma: float = 1.0) -> Value:
    """cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor"""
    number = uniform01(op, op.sizes(x), wide(op.out.dtype))
    slope = op.Tan(op.Mul(op.Sub(number, 0.5), pi))
    return op.cast(op.Add(op.Mul(slope, sigma), median), op.out.dtype)


def _minus_log(op: Op, x: Value) -> Value:
    """Exponentially distributed with mean 1, for each element of `x`: -log(1 - u), which is finite and may be 0."""
    number = uniform01(op, op.sizes(x), wide(op.out.dtype))
    return op.Neg(op.Log(op.Sub(1.0, number)))
