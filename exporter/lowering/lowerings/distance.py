"""Distances between the rows of matrices."""

from __future__ import annotations

import numpy as np
import sympy
import torch
from torch.utils._sympy.functions import Max

from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import is_symbolic
from fxport.exporter.lowering.lowerings.vector_norm import vector_norm

aten = torch.ops.aten

FEW_ROWS = 25
"""Up to so many rows PyTorch subtracts pair by pair, unless it is told otherwise; beyond, it multiplies matrices."""

BY_PRODUCT, BY_DIFFERENCE = 1, 2
"""Values of `compute_mode`."""


@lowering(aten.cdist.default, aten._cdist_forward.default)
def cdist(op: Op, x1: Value, x2: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor"""
    sizes = op.sizes(x1), op.sizes(x2)
    if sizes[0][-1] == 0:
        return op.Expand(op.const(0, like=x1), op.shape(op.out.sizes))
    rows = [each[-2] for each in sizes]
    many = any(not is_symbolic(each) and each > FEW_ROWS for each in rows)
    if p == 2.0 and (compute_mode == BY_PRODUCT or (many and compute_mode != BY_DIFFERENCE)):
        return _by_product(op, x1, x2)
    if p != 2.0 or compute_mode == BY_DIFFERENCE or not any(is_symbolic(each) for each in rows):
        return _by_difference(op, x1, x2, p)
    product, difference = (op.graph((), lambda way=way: [way(op, x1, x2)]) for way in (_by_product, _by_difference))
    many_rows = sympy.Gt(Max(*rows), FEW_ROWS)
    return op.If(op.const(many_rows), then_branch=product, else_branch=difference)


def _by_difference(op: Op, x1: Value, x2: Value, p: float = 2.0) -> Value:
    """The norm of each difference: exact where two rows are the same."""
    differences = op.Sub(op.Unsqueeze(x1, [-2]), op.Unsqueeze(x2, [-3]))
    return vector_norm(op, op.typed(differences, [*op.out.sizes, op.sizes(x1)[-1]]), p, [-1], False)


def _by_product(op: Op, x1: Value, x2: Value) -> Value:
    """|a - b|² = |a|² - 2ab + |b|², not below 0."""
    rank = op.rank(x2)
    across = [*range(rank - 2), rank - 1, rank - 2]
    squares1 = op.ReduceSumSquare(x1, [op.rank(x1) - 1])
    squares2 = op.Transpose(op.ReduceSumSquare(x2, [rank - 1]), perm=across)
    products = op.MatMul(op.Mul(x1, -2.0), op.Transpose(x2, perm=across))
    return op.Sqrt(op.Max(op.Add(op.Add(products, squares1), squares2), 0.0))


@lowering(aten._pdist_forward.default)
def pdist(op: Op, x: Value, p: float = 2.0) -> Value:
    """_pdist_forward(Tensor self, float p=2.) -> Tensor

    The distances of all pairs, of which those above the diagonal are kept, row by row.
    """
    rows, columns = op.sizes(x)
    differences = op.typed(op.Sub(op.Unsqueeze(x, [1]), op.Unsqueeze(x, [0])), [rows, rows, columns])
    norms = vector_norm(op, differences, p, [-1], False)
    ones = op.ConstantOfShape(op.shape([rows, rows]), value=np.array([True]))
    above = op.reshape(op.Trilu(ones, 1, upper=1), [rows * rows])
    return op.Compress(op.reshape(norms, [rows * rows]), above, axis=0)
