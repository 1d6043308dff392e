"""Systems of linear equations, inverses, triangular systems."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.indices import broadcast
from fxport.exporter.lowering.lowerings.linalg_factor import eliminated, from_lapack, order_of, singular_at
from fxport.exporter.lowering.lowerings.linalg_matrices import eyes, flipped, rows_of
from fxport.exporter.lowering.lowerings.loops import loop
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten


def substituted(op: Op, t: Value, b: Value, *, upper: bool, unit: bool = False) -> Value:
    """X of T X = B for triangular T, whose other triangle is not read, nor its diagonal if `unit`.

    Substitution by columns (Golub & Van Loan, algorithms 3.1.3 and 3.1.4): X solves a system whose T differs by n u |T|
    at most, in each element (Higham, Accuracy and Stability, theorem 8.5). The batch of B is that of the result.
    """
    n = op.sizes(t)[-1]
    rows = rows_of(op, n)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        (x,) = states
        place = op.Sub(op.const(n - 1, dtype=ir.DataType.INT64), turn) if upper else turn
        at = op.Unsqueeze(place, [0])
        column, row = op.Gather(t, at, axis=-1), op.Gather(x, at, axis=-2)
        if not unit:
            row = op.Div(row, op.Gather(column, at, axis=-2))
        ahead = op.Less(rows, place) if upper else op.Greater(rows, place)
        rest = op.Where(ahead, op.Sub(x, op.Mul(column, row)), x)
        return None, [op.Where(op.Equal(rows, place), row, rest)]

    return loop(op, n, [b], step)[0]


def solved(op: Op, a: Value, b: Value) -> tuple[Value, Value, Value]:
    """X of A X = B, and what elimination left: the factors, and the pivots counted from 0.

    inv(L) P B is found on the way to U, then inv(U) of it by substitution. X solves a system whose A differs by
    3 n u |L| |U| at most (Higham, theorem 9.4).
    """
    lu, pivots, beside = eliminated(op, a, b)
    assert beside is not None  # as `b` was given
    return substituted(op, lu, beside, upper=True), lu, pivots


def by_factors(op: Op, lu: Value, pivots: Value, b: Value, transposed: bool = False) -> Value:
    """X of P L U X = B, or of (P L U)ᵀ X = B; batches broadcast."""
    n, batch = op.sizes(lu)[-1], broadcast([op.sizes(lu)[:-2], op.sizes(b)[:-2]])
    sizes = [*batch, n, op.sizes(b)[-1]]
    b = expanded(op, b, sizes)
    order = order_of(op, pivots, n)
    places = expanded(op, op.typed(op.Unsqueeze(order, [-1]), [*op.sizes(order), 1]), sizes)
    if transposed:
        turned = flipped(op, lu)
        x = substituted(op, turned, substituted(op, turned, b, upper=False), upper=True, unit=True)
        return op.typed(op.ScatterElements(x, places, x, axis=-2), sizes)
    moved = op.typed(op.GatherElements(b, places, axis=-2), sizes)
    return substituted(op, lu, substituted(op, lu, moved, upper=False, unit=True), upper=True)


@lowering(aten.linalg_inv_ex.default)
def linalg_inv_ex(op: Op, A: Value, *, check_errors: bool = False) -> tuple[Value, Value]:
    """linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)

    A X = I. ONNX has no errors to raise: a singular matrix shows in `info`, and in an inverse that is not finite.
    """
    *batch, n, _ = op.sizes(A)
    inverse, lu, _ = solved(op, A, eyes(op, batch, n, n, A.dtype))
    return inverse, singular_at(op, lu)


@lowering(aten._linalg_solve_ex.default)
def linalg_solve_ex(
    op: Op, A: Value, B: Value, *, left: bool = True, check_errors: bool = False
) -> tuple[Value, Value | None, Value | None, Value]:
    """_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) \
-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)

    `B` may be a batch of vectors: without one axis of `A`, but otherwise as it. LU and pivots serve gradients only:
    PyTorch gives those of A or of its transpose, as A lies in memory.
    """
    vectors = op.rank(B) == 1 or (op.rank(B) == op.rank(A) - 1 and op.sizes(B) == op.sizes(A)[:-1])
    right = op.typed(op.Unsqueeze(B, [-1]), [*op.sizes(B), 1]) if vectors else B
    a, right = (A, right) if left else (flipped(op, A), flipped(op, right))
    batch = broadcast([op.sizes(a)[:-2], op.sizes(right)[:-2]])
    if tuple(batch) == op.sizes(a)[:-2]:
        x, lu, _ = solved(op, a, expanded(op, right, [*batch, *op.sizes(right)[-2:]]))
    else:
        lu, pivots, _ = eliminated(op, a)
        x = by_factors(op, lu, pivots, right)
    x = x if left else flipped(op, x)
    return op.Squeeze(x, [-1]) if vectors else x, None, None, singular_at(op, lu)


@lowering(aten.linalg_lu_solve.default)
def linalg_lu_solve(op: Op, LU: Value, pivots: Value, B: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor

    A X = B for A = P L U, or Aᵀ X = B; from the right, the transposed system.
    """
    b = B if left else flipped(op, B)
    x = by_factors(op, LU, from_lapack(op, pivots), b, transposed=adjoint == left)
    return x if left else flipped(op, x)


@lowering(aten.linalg_solve_triangular.default)
def linalg_solve_triangular(
    op: Op, A: Value, B: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor

    See `substituted`; X A = B is Aᵀ Xᵀ = Bᵀ.
    """
    if not left:
        turned = flipped(op, A), flipped(op, B)
        return flipped(op, _with_batches(op, *turned, upper=not upper, unit=unitriangular))
    return _with_batches(op, A, B, upper=upper, unit=unitriangular)


@lowering(aten.triangular_solve.default)
def triangular_solve(
    op: Op, B: Value, A: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) \
-> (Tensor solution, Tensor cloned_coefficient)"""
    t = flipped(op, A) if transpose else A
    solution = _with_batches(op, t, B, upper=upper != transpose, unit=unitriangular)
    return solution, expanded(op, A, [*op.sizes(solution)[:-2], *op.sizes(A)[-2:]])


def _with_batches(op: Op, t: Value, b: Value, *, upper: bool, unit: bool) -> Value:
    batch = broadcast([op.sizes(t)[:-2], op.sizes(b)[:-2]])
    return substituted(op, t, expanded(op, b, [*batch, *op.sizes(b)[-2:]]), upper=upper, unit=unit)
