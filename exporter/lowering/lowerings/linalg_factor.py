"""LU factorization with partial pivoting, and determinants."""

from __future__ import annotations

import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import Unsupported, lowering
from fxport.exporter.lowering.lowerings.indices import arange
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    columns_of,
    diagonal,
    first_true,
    leading,
    reduced,
    rows_of,
    smaller,
    triangle,
    unit_lower,
)
from fxport.exporter.lowering.lowerings.loops import loop
from fxport.exporter.lowering.lowerings.shape import expanded

aten = torch.ops.aten

INT64 = ir.DataType.INT64


def eliminated(op: Op, a: Value, beside: Value | None = None) -> tuple[Value, Value, Value | None]:
    """P A = L U: the factors in one matrix, the pivots [..., min(m, n)] counted from 0, and inv(L) P B for a B beside.

    Gaussian elimination with partial pivoting, by outer products (Golub & Van Loan, Matrix Computations, 4th ed.,
    algorithm 3.4.1). The factors are exact for a matrix that is nearer to A than 2 n³ ρ u ‖A‖, in practice n u ‖A‖, for
    the unit roundoff u and the growth factor ρ (section 3.4.6; Higham, Accuracy and Stability, theorem 9.5).
    """
    *batch, m, n = op.sizes(a)
    width, k = n, smaller(m, n)
    if beside is not None:
        width = n + op.sizes(beside)[-1]
        a = op.typed(op.Concat(a, beside, axis=len(batch) + 1), [*batch, m, width])
    rows, columns, steps = rows_of(op, m), columns_of(op, width), arange(op, k)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        a, pivots = states
        at = op.Unsqueeze(turn, [0])
        candidates = op.Where(op.Less(rows, turn), -1, op.Abs(op.Gather(a, at, axis=-1)))
        place = op.ArgMax(candidates, axis=len(batch), keepdims=1)
        here, there = op.Equal(rows, turn), op.Equal(rows, place)
        pivot_row = reduced(op, "ReduceSum", op.Where(there, a, 0), len(batch) + 2, -2)
        a = op.Where(here, pivot_row, op.Where(there, op.Gather(a, at, axis=-2), a))
        pivot = op.Gather(pivot_row, at, axis=-1)
        factors = op.Div(op.Gather(a, at, axis=-1), op.Where(op.Equal(pivot, 0), 1, pivot))
        below = op.Greater(rows, turn)
        changed = op.Where(op.Equal(columns, turn), factors, op.Sub(a, op.Mul(factors, pivot_row)))
        a = op.Where(op.And(below, op.GreaterOrEqual(columns, turn)), changed, a)
        return None, [a, op.Where(op.Equal(steps, turn), op.Squeeze(place, [-1]), pivots)]

    start = op.typed(op.Expand(op.const(0, dtype=INT64), op.shape([*batch, k])), [*batch, k])
    a, pivots = loop(op, k, [a, start], step)
    if beside is None:
        return a, pivots, None
    found = op.typed(op.Slice(a, op.shape([n]), op.shape([width]), [-1]), op.sizes(beside))
    return leading(op, a, m, n), pivots, found


def order_of(op: Op, pivots: Value, m: Size) -> Value:
    """Compute the row of A for each row of P A, INT64 [..., m], from pivots counted from 0: their swaps, one by one."""
    *batch, k = op.sizes(pivots)
    places = arange(op, m)

    def step(turn: Value, states: Values) -> tuple[None, list[Value]]:
        (order,) = states
        at = op.Unsqueeze(turn, [0])
        other = op.Gather(pivots, at, axis=-1)
        here, there = op.Gather(order, at, axis=-1), op.GatherElements(order, other, axis=-1)
        moved = op.Where(op.Equal(places, other), here, order)
        return None, [op.Where(op.Equal(places, turn), there, moved)]

    return loop(op, k, [expanded(op, places, [*batch, m])], step)[0]


def permutation(op: Op, order: Value, dtype: ir.DataType | None) -> Value:
    """The matrices P of A = P L U, from `order_of`."""
    *batch, m = op.sizes(order)
    held = op.Equal(rows_of(op, m), op.Unsqueeze(order, [len(batch)]))
    return op.typed(op.Cast(held, to=dtype), [*batch, m, m])


def from_lapack(op: Op, pivots: Value) -> Value:
    """LAPACK's pivots, INT32 from 1 on, as INT64 from 0 on."""
    return op.typed(op.Sub(op.cast(pivots, INT64), 1), op.sizes(pivots))


def to_lapack(op: Op, pivots: Value) -> Value:
    return op.Cast(op.Add(pivots, 1), to=ir.DataType.INT32)


def singular_at(op: Op, lu: Value) -> Value:
    """The first zero pivot, as LAPACK's info."""
    found = diagonal(op, lu)
    return first_true(op, op.typed(op.Equal(found, 0), op.sizes(found)))


@lowering(aten.linalg_lu_factor_ex.default)
def linalg_lu_factor_ex(
    op: Op, A: Value, *, pivot: bool = True, check_errors: bool = False
) -> tuple[Value, Value, Value]:
    """linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) \
-> (Tensor LU, Tensor pivots, Tensor info)

    See `eliminated`. ONNX has no errors to raise: a zero pivot shows in `info`.
    """
    _wants_pivots(pivot)
    lu, pivots, _ = eliminated(op, A)
    return lu, to_lapack(op, pivots), singular_at(op, lu)


@lowering(aten.linalg_lu.default)
def linalg_lu(op: Op, A: Value, *, pivot: bool = True) -> tuple[Value, Value, Value]:
    """linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)

    See `eliminated`.
    """
    _wants_pivots(pivot)
    lu, pivots, _ = eliminated(op, A)
    return permutation(op, order_of(op, pivots, op.sizes(A)[-2]), A.dtype), *_triangles(op, lu)


@lowering(aten.lu_unpack.default)
def lu_unpack(
    op: Op, LU_data: Value, LU_pivots: Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Value, Value, Value]:
    """lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) \
-> (Tensor P, Tensor L, Tensor U)

    What is not asked for is an empty tensor.
    """
    nothing = op.const([], dtype=LU_data.dtype)
    p = nothing
    if unpack_pivots:
        p = permutation(op, order_of(op, from_lapack(op, LU_pivots), op.sizes(LU_data)[-2]), LU_data.dtype)
    return p, *(_triangles(op, LU_data) if unpack_data else (nothing, nothing))


@lowering(aten._linalg_det.default)
def linalg_det(op: Op, A: Value) -> tuple[Value, Value | None, Value | None]:
    """_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)

    The product of the pivots, negative for an odd number of swaps. LU and pivots serve gradients only: PyTorch gives
    those of A or of its transpose, as A lies in memory.
    """
    lu, pivots, _ = eliminated(op, A)
    return op.Mul(_product(op, diagonal(op, lu)), _parity(op, pivots, A.dtype)), None, None


@lowering(aten._linalg_slogdet.default)
def linalg_slogdet(op: Op, A: Value) -> tuple[Value, Value, Value | None, Value | None]:
    """_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)

    Of a singular matrix the sign is 0 and the logarithm -inf. LU and pivots serve gradients only.
    """
    lu, pivots, _ = eliminated(op, A)
    values = diagonal(op, lu)
    sign = op.Mul(_product(op, op.typed(op.Sign(values), op.sizes(values))), _parity(op, pivots, A.dtype))
    return sign, reduced(op, "ReduceSum", op.Log(op.Abs(values)), op.rank(values), -1, keepdims=0), None, None


def _parity(op: Op, pivots: Value, dtype: ir.DataType | None) -> Value:
    """-1 for an odd number of swaps, otherwise 1."""
    unmoved = op.Equal(pivots, arange(op, op.sizes(pivots)[-1]))
    one = op.const(1, dtype=dtype)
    return _product(op, op.typed(op.Where(unmoved, one, -1), op.sizes(pivots)))


def _product(op: Op, x: Value) -> Value:
    return reduced(op, "ReduceProd", x, op.rank(x), -1, keepdims=0)


def _triangles(op: Op, lu: Value) -> tuple[Value, Value]:
    m, n = op.sizes(lu)[-2:]
    k = smaller(m, n)
    return unit_lower(op, leading(op, lu, m, k)), triangle(op, leading(op, lu, k, n), upper=True)


def _wants_pivots(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("LU without pivoting is not stable, and PyTorch itself has it for CUDA only")
