"""Random integers, choices and orders."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value
from fxport.exporter.lowering.lower.dtypes import int_range, is_integer
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.random_bits import BITS, DOUBLE, coins, uniform01, wide

aten = torch.ops.aten

INT64 = ir.DataType.INT64


def integers(op: Op, sizes: Sequence[Size], low: Size, high: Size | Value) -> Value:
    """Integers from `low` to below `high`, in the dtype of the result.

    Scaled from 53 random bits: their probabilities differ by less than one part in 2**53 / (high - low).
    """
    count = op.Sub(high, op.const(low)) if isinstance(high, ir.Value) else op.const(high - low)
    scaled = op.Mul(uniform01(op, sizes, DOUBLE), op.cast(count, DOUBLE))
    return op.cast(op.Add(op.Cast(scaled, to=INT64), op.const(low)), op.out.dtype)


@lowering(aten.randint.default, aten.randint.generator)
def randint(op: Op, high: Size, size: Sequence[Size], *, dtype: ir.DataType | None = None) -> Value:
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, \
bool? pin_memory=None) -> Tensor"""
    return integers(op, size, 0, high)


@lowering(aten.randint.low, aten.randint.low_generator)
def randint_low(op: Op, low: Size, high: Size, size: Sequence[Size], *, dtype: ir.DataType | None = None) -> Value:
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, \
Device? device=None, bool? pin_memory=None) -> Tensor"""
    return integers(op, size, low, high)


@lowering(aten.randint_like.default, aten.randint_like.generator)
def randint_like(op: Op, x: Value, high: Size, *, dtype: ir.DataType | None = None) -> Value:
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, \
bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return integers(op, op.sizes(x), 0, high)


@lowering(aten.randint_like.low_dtype, aten.randint_like.low_generator_dtype)
def randint_like_low(op: Op, x: Value, low: Size, high: Size, *, dtype: ir.DataType | None = None) -> Value:
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, \
Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return integers(op, op.sizes(x), low, high)


@lowering(aten.randint_like.Tensor)
def randint_like_tensor(op: Op, x: Value, high: Value, *, dtype: ir.DataType | None = None) -> Value:
    """randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, Layout? layout=None, \
Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return integers(op, op.sizes(x), 0, op.cast(high, INT64))


@lowering(aten.random.default)
def random(op: Op, x: Value) -> Value:
    """random(Tensor self, *, Generator? generator=None) -> Tensor"""
    return integers(op, op.sizes(x), 0, _largest(op.out.dtype) + 1)


@lowering(aten.random.to)
def random_to(op: Op, x: Value, to: int) -> Value:
    """random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor"""
    return integers(op, op.sizes(x), 0, to)


def _largest(dtype: ir.DataType) -> int:
    """The end of the integers that a dtype holds without gaps; of INT64 one less, so that the count fits as well."""
    if dtype == ir.DataType.BOOL:
        return 1
    return min(int_range(dtype)[1], 2**63 - 2) if is_integer(dtype) else 2 ** BITS[dtype]


@lowering(aten.randperm.default, aten.randperm.generator)
def randperm(op: Op, n: Size, *, dtype: ir.DataType | None = None) -> Value:
    """randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) \
-> Tensor

    The order of as many uniform numbers.
    """
    _, order = op.TopK(uniform01(op, [n], DOUBLE), op.shape([n]), outputs=2)
    return op.cast(order, op.out.dtype)


@lowering(aten.bernoulli.default)
def bernoulli(op: Op, x: Value) -> Value:
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    return bernoulli_tensor(op, x, x)


@lowering(aten.bernoulli.Tensor)
def bernoulli_tensor(op: Op, x: Value, p: Value) -> Value:
    """bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"""
    dtype = wide(p.dtype)
    return op.cast(op.Less(uniform01(op, op.sizes(x), dtype), op.cast(p, dtype)), op.out.dtype)


@lowering(aten.bernoulli.p)
def bernoulli_p(op: Op, x: Value, p: float) -> Value:
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return op.cast(coins(op, op.sizes(x), p), op.out.dtype)


@lowering(aten.multinomial.default)
def multinomial(op: Op, x: Value, num_samples: Size, replacement: bool = False) -> Value:
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor

    The largest of log-probabilities to which Gumbel noise is added: anew for each sample, or else the first few in
    order, which are then drawn without replacement.
    """
    *rows, classes = op.sizes(x)
    scores = op.Log(op.cast(x, wide(x.dtype)))
    if replacement:
        noisy = op.Add(op.Unsqueeze(scores, [len(rows)]), _gumbel(op, [*rows, num_samples, classes], wide(x.dtype)))
        return op.ArgMax(noisy, axis=len(rows) + 1, keepdims=0)
    _, order = op.TopK(op.Add(scores, _gumbel(op, [*rows, classes], wide(x.dtype))), op.shape([num_samples]), outputs=2)
    return order


def _gumbel(op: Op, sizes: Sequence[Size], dtype: ir.DataType) -> Value:
    """-log(-log(u)), which may be minus infinity but never infinity: what has no probability is never drawn."""
    return op.Neg(op.Log(op.Neg(op.Log(uniform01(op, sizes, dtype)))))
