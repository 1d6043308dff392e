"""Products of matrices and vectors: linear, mm, bmm, matmul, addmm and their relatives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import sympy
import torch

from fxport.exporter.lowering.lower.builder import Op, Scalar, Value
from fxport.exporter.lowering.lower.dtypes import is_float
from fxport.exporter.lowering.lower.producers import made_by
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import is_symbolic

aten = torch.ops.aten

WIDER: Mapping[ir.DataType, ir.DataType] = {
    ir.DataType.INT8: ir.DataType.INT32,
    ir.DataType.INT16: ir.DataType.INT32,
    ir.DataType.UINT8: ir.DataType.INT32,
    ir.DataType.UINT16: ir.DataType.INT32,
}
"""ONNX's MatMul has no small integers: they are multiplied as INT32, and the cast back wraps as PyTorch does."""


@lowering(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)
def matmul(op: Op, x: Value, other: Value) -> Value:
    """matmul(Tensor self, Tensor other) -> Tensor

    ONNX's MatMul is NumPy's, and so is PyTorch's: a vector on the left is a row, on the right a column, and the leading
    axes of both broadcast.
    """
    return op.cast(product_of(op, x, other), op.out.dtype)


@lowering(aten.linear.default)
def linear(op: Op, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor

    One Gemm for a matrix. For more axes MatMul with the transposed weight, which costs nothing at run time where the
    weight is an initializer; a vector as weight needs no transposition.
    """
    if op.rank(weight) == 2 and is_float(x.dtype) and (op.rank(x) == 2 or _only_weight_is_quantized(x, weight)):
        return _by_rows(op, x, weight, *([bias] if bias is not None else []))
    columns = weight
    if op.rank(weight) == 2:
        columns = op.typed(op.Transpose(weight, perm=[1, 0]), op.sizes(weight)[::-1])
    return matmul(op, x, columns) if bias is None else _plus(op, bias, product_of(op, x, columns))


@lowering(aten.bilinear.default)
def bilinear(op: Op, x1: Value, x2: Value, weight: Value, bias: Value | None = None) -> Value:
    """bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor

    y[o] = x1 · weight[o] · x2: the first product for all o at once, the second for each.
    """
    outputs, inner, other = op.sizes(weight)
    columns = op.reshape(op.Transpose(weight, perm=[1, 0, 2]), [inner, outputs * other])
    rows = op.reshape(op.MatMul(x1, columns), [*op.sizes(x1)[:-1], outputs, other])
    product = op.Squeeze(op.MatMul(rows, op.Unsqueeze(x2, [-1])), [-1])
    return product if bias is None else op.Add(product, bias)


@lowering(aten.addmm.default)
def addmm(op: Op, x: Value, mat1: Value, mat2: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor

    Gemm where its attributes, which are float32, hold the factors exactly; PyTorch does not read `self` if beta is 0.
    Without columns to sum over, ONNX Runtime's Gemm forgets beta.
    """
    exact = all(_fits_attribute(factor, x.dtype) for factor in (alpha, beta)) and op.sizes(mat1)[1] != 0
    if not is_float(x.dtype) or not exact:
        return _plus(op, x, product_of(op, mat1, mat2), beta, alpha)
    if beta == 0:
        return op.Gemm(mat1, mat2, alpha=_unless_one(alpha))
    return op.Gemm(mat1, mat2, x, alpha=_unless_one(alpha), beta=_unless_one(beta))


@lowering(aten.baddbmm.default)
def baddbmm(op: Op, x: Value, batch1: Value, batch2: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _plus(op, x, product_of(op, batch1, batch2), beta, alpha)


@lowering(aten.addbmm.default)
def addbmm(op: Op, x: Value, batch1: Value, batch2: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _plus(op, x, op.ReduceSum(product_of(op, batch1, batch2), [0], keepdims=0), beta, alpha)


@lowering(aten.addmv.default)
def addmv(op: Op, x: Value, mat: Value, vec: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor"""
    return _plus(op, x, product_of(op, mat, vec), beta, alpha)


@lowering(aten._int_mm.default)
def int_mm(op: Op, x: Value, mat2: Value) -> Value:
    """_int_mm(Tensor self, Tensor mat2) -> Tensor"""
    return op.MatMulInteger(x, mat2)


def product_of(op: Op, x: Value, other: Value, ranks: tuple[int, int] | None = None) -> Value:
    """The product, of small integers as INT32. `ranks` are those of the two, where their sizes are not known.

    A vector on the right is made a column: ONNX Runtime 1.31 multiplies a transposed matrix wrongly with a vector.
    """
    rank, other_rank = ranks or (op.rank(x), op.rank(other))
    x, other = widened(op, x), widened(op, other)
    transposed = made_by(other, "Transpose")
    weight = None if transposed is None else transposed.inputs[0]
    if rank > 1 and weight is not None and _only_weight_is_quantized(x, weight):
        return _by_rows(op, x, weight)
    if rank > 1 and other_rank == 1:
        return op.Squeeze(op.MatMul(x, op.Unsqueeze(other, [-1])), [-1])
    return op.MatMul(x, other)


def _by_rows(op: Op, x: Value, weight: Value, *bias: Value) -> Value:
    """`x @ weight.T + bias` as one Gemm, which takes the other axes of `x` as rows."""
    if op.rank(x) == 2:
        return op.Gemm(x, weight, *bias, transB=1)
    *lead, inner = op.sizes(x)
    product = op.Gemm(op.reshape(x, [sympy.prod(lead), inner]), weight, *bias, transB=1)
    return op.reshape(product, [*lead, op.sizes(weight)[0]])


def _only_weight_is_quantized(x: Value, weight: Value) -> bool:
    """Return True if ONNX Runtime would make the product with `weight.T` a MatMulNBits, which rounds `x` to 8 bits as
    well.

    It does so with MatMul, and with Gemm whose second operand is not transposed, but not where both are restored from
    integers. docs/decisions/quantized-products.md has the figures.
    """
    return made_by(weight, "DequantizeLinear") is not None and made_by(x, "DequantizeLinear") is None


def widened(op: Op, x: Value) -> Value:
    """Small integers as INT32, everything else as it is."""
    wider = WIDER.get(x.dtype) if x.dtype is not None else None
    return x if wider is None else op.cast(x, wider)


def _plus(op: Op, x: Value, product: Value, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """`beta * x + alpha * product` in the result's dtype. PyTorch does not read `x` if `beta` is 0."""
    scaled = product if alpha == 1 else op.Mul(product, _factor(op, alpha, product))
    if beta == 0:
        return op.cast(scaled, op.out.dtype)
    x = op.const(x, like=product)
    return op.cast(op.Add(x if beta == 1 else op.Mul(x, _factor(op, beta, product)), scaled), op.out.dtype)


def _factor(op: Op, factor: Scalar, like: Value) -> Value:
    """A factor in the dtype of the product; PyTorch truncates it where that is an integer."""
    exact = is_symbolic(factor) or is_float(like.dtype)
    return op.const(factor if exact else int(factor), like=like)  # type: ignore[arg-type]  # a plain number


def _fits_attribute(factor: Scalar, dtype: ir.DataType | None) -> bool:
    """Return True if a factor fits into an attribute, which is a float32, without a loss that the dtype would show."""
    if is_symbolic(factor):
        return False
    return dtype != ir.DataType.DOUBLE or float(np.float32(factor)) == float(factor)  # type: ignore[arg-type]


def _unless_one(factor: Scalar) -> float | None:
    return None if factor == 1 else float(factor)  # type: ignore[arg-type]  # callers hold a plain number
