"""The exponential of matrices."""

from __future__ import annotations

from math import factorial

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.linalg_eigen import empty
from fxport.exporter.lowering.lowerings.linalg_matrices import eye, reduced
from fxport.exporter.lowering.lowerings.loops import loop

aten = torch.ops.aten

DEGREE = 20
STRIDE = 4
"""Powers up to this one are multiplied out: 3 products, and 4 more for Horner's scheme in the last of them."""

RADIUS = 1.4
"""Up to this norm a Taylor polynomial of degree 20 is exact to the unit roundoff of float64 (Al-Mohy & Higham,
Computing the action of the matrix exponential, 2011, table 3.1)."""


@lowering(aten.linalg_matrix_exp.default)
def linalg_matrix_exp(op: Op, x: Value) -> Value:
    """linalg_matrix_exp(Tensor self) -> Tensor

    Scaling and squaring (Higham, Functions of Matrices, section 10.3): each matrix is halved until its 1-norm is at
    most 1.4, the polynomial is evaluated by the method of Paterson and Stockmeyer, and squared as often as it was
    halved. Relative to ‖exp(A)‖ the error is that of the squarings, n² u ‖A‖ for normal matrices; all in DOUBLE, since
    of small elements digits cancel.
    """
    *batch, n, _ = op.sizes(x)
    if n == 0:
        return empty(op, op.out.sizes, x)
    x = op.cast(x, ir.DataType.DOUBLE)
    rank = len(batch) + 2
    norms = reduced(op, "ReduceMax", reduced(op, "ReduceSum", op.Abs(x), rank, -2), rank, -1)
    halvings = op.Max(op.Ceil(op.Mul(op.Log(op.Max(op.Div(norms, RADIUS), 1.0)), 1 / 0.6931471805599453)), 0.0)
    small = op.Div(x, op.Pow(op.const(2.0, like=x), halvings))

    def square(turn: Value, states: Values) -> tuple[None, list[Value]]:
        wanted = op.Less(op.cast(turn, x.dtype), halvings)  # type: ignore[arg-type]  # x has a dtype
        return None, [op.Where(wanted, op.MatMul(states[0], states[0]), states[0])]

    most = op.Cast(op.ReduceMax(halvings, keepdims=0), to=ir.DataType.INT64)
    start = op.typed(_taylor(op, small, eye(op, n, n, x.dtype)), op.sizes(x))
    return op.cast(loop(op, most, [start], square)[0], op.out.dtype)


def _taylor(op: Op, a: Value, one: Value) -> Value:
    """The polynomial, in blocks of STRIDE terms."""
    powers = [one, a]
    while len(powers) <= STRIDE:
        powers.append(op.MatMul(powers[-1], a))
    total = op.Mul(one, 1 / factorial(DEGREE))
    for first in range(DEGREE - STRIDE, -1, -STRIDE):
        total = op.MatMul(powers[STRIDE], total)
        for power in range(STRIDE):
            total = op.Add(total, op.Mul(powers[power], 1 / factorial(first + power)))
    return total
