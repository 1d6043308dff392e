"""Singular value decomposition and pseudo-inverses."""

from __future__ import annotations

import torch

from fxport.exporter.lowering.lower.builder import Op, Size, Value, Values
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lowerings.axes import sliced
from fxport.exporter.lowering.lowerings.linalg_eigen import eigenpairs, empty, mirrored, ordered, scaled
from fxport.exporter.lowering.lowerings.linalg_jacobi import Tournament, rotation
from fxport.exporter.lowering.lowerings.linalg_matrices import (
    EPSILON,
    columns_of,
    diagonal,
    eyes,
    flipped,
    larger,
    leading,
    reduced,
    rows_of,
    smaller,
)
from fxport.exporter.lowering.lowerings.linalg_qr import reflected, rotated
from fxport.exporter.lowering.lowerings.loops import any_of, loop

aten = torch.ops.aten


def decomposed(op: Op, a: Value, full: bool = False) -> tuple[Value, Value, Value]:
    """U, the singular values in descending order, and V, of A = U diag(S) Vᵀ; with `full` U and V are square.

    One-sided Jacobi, n/2 rotations at once (Golub & Van Loan, section 8.6.3), of the columns of A, or of its transpose
    if A is known to be wide, until their cosines are m eps at most. Singular values are then exact for a matrix that
    differs by p(m, n) u ‖A‖, with a modest p. U is what Householder's QR makes of the columns, up to signs: orthogonal
    also where singular values are 0. The sign of a pair of vectors, and the vectors for equal values, are free.
    """
    if _is_wide(op, a):
        v, s, u = decomposed(op, flipped(op, a), full)
        return u, s, v
    *batch, m, n = op.sizes(a)
    k = smaller(m, n)
    wide = m if full else k
    w, v, s, order = _orthogonal(op, a, [eyes(op, batch, n, n, a.dtype)])
    held, taus = reflected(op, ordered(op, w, order))
    signs = op.Where(op.Less(diagonal(op, held), 0), op.const(-1, dtype=a.dtype), 1)
    q = rotated(op, held, taus, eyes(op, batch, m, wide, a.dtype))
    u = op.Mul(q, op.Unsqueeze(_padded(op, signs, batch, k, wide), [len(batch)]))
    v = ordered(op, v, order)
    return op.typed(u, [*batch, m, wide]), s, v if full else leading(op, v, n, k)


def singular_values(op: Op, a: Value) -> Value:
    """The singular values alone. See `decomposed`."""
    return _orthogonal(op, flipped(op, a) if _is_wide(op, a) else a, [])[1]


def _is_wide(op: Op, a: Value) -> bool:
    """Return True if A is known to have more columns than rows."""
    m, n = op.sizes(a)[-2:]
    return isinstance(m, int) and isinstance(n, int) and m < n


def _padded(op: Op, signs: Value, batch: list[Size], k: Size, wide: Size) -> Value:
    """Signs for all columns of a square U: those beyond the singular values keep theirs."""
    if wide == k:
        return signs
    rest = op.Expand(op.const(1, like=signs), op.shape([*batch, wide - k]))
    return op.Concat(signs, rest, axis=len(batch))


def _orthogonal(op: Op, a: Value, others: Values) -> tuple[Value, ...]:
    """Columns rotated until they are orthogonal, others that turned with them, the singular values, the order to sort.

    Orthogonal columns have the singular values as lengths.
    """
    *batch, m, n = op.sizes(a)
    rank = len(batch) + 2
    unit, scale = scaled(op, a)
    rows, columns = rows_of(op, n), columns_of(op, n)
    off, tournament = op.Not(op.Equal(rows, columns)), Tournament.of(op, n)
    cosine = op.Mul(op.const(m, like=a), EPSILON[a.dtype])  # type: ignore[index]  # FLOAT or DOUBLE
    swapped = [*range(rank - 2), rank - 1, rank - 2]

    def step(turn: Value, states: Values) -> tuple[Value, list[Value]]:
        w = states[0]
        products = op.MatMul(op.Transpose(w, perm=swapped), w)
        lengths = op.Sqrt(reduced(op, "ReduceSum", op.Where(off, 0, products), rank, -2))
        limit = op.Mul(op.Mul(lengths, op.Transpose(lengths, perm=swapped)), cosine)
        left = op.And(op.Greater(op.Abs(products), limit), off)
        turned = rotation(op, products, tournament.partner(op, turn), rank, n)
        return any_of(op, left), [turned.columns(op, each) for each in states]

    found = loop(op, tournament.turns(op), [unit, *others], step)
    lengths = reduced(op, "ReduceL2", found[0], rank, -2, keepdims=0)
    s, order = op.TopK(lengths, op.shape([n]), axis=rank - 2, outputs=2)
    s, k = op.Mul(s, op.Squeeze(scale, [rank - 1])), smaller(m, n)
    return *found, op.typed(s if k == n else sliced(op, s, rank - 2, 0, k), [*batch, k]), order


@lowering(aten._linalg_svd.default)
def linalg_svd(
    op: Op, A: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Value, Value, Value]:
    """_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) \
-> (Tensor U, Tensor S, Tensor Vh)

    See `decomposed`. Vectors that are not asked for are empty tensors; drivers are those of CUDA.
    """
    *batch, m, n = op.sizes(A)
    if 0 in (m, n):
        u, s, vh = (empty(op, out.sizes, A) for out in op.outs)
        square = full_matrices and compute_uv
        return (
            eyes(op, batch, m, m, A.dtype) if square else u,
            s,
            eyes(op, batch, n, n, A.dtype) if square else vh,
        )
    if not compute_uv:
        nothing = op.const([], dtype=A.dtype)
        return nothing, singular_values(op, A), nothing
    u, s, v = decomposed(op, A, full_matrices)
    return u, s, flipped(op, v)


def symmetric_parts(op: Op, a: Value) -> tuple[Value, Value, Value]:
    """V, the eigenvalues and V, of A = V diag(S) Vᵀ with the lower triangle of A."""
    values, vectors = eigenpairs(op, mirrored(op, a, upper=False))
    return vectors, values, vectors


@lowering(aten.linalg_pinv.atol_rtol_tensor)
def linalg_pinv(
    op: Op, x: Value, *, atol: Value | None = None, rtol: Value | None = None, hermitian: bool = False
) -> Value:
    """linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> \
Tensor

    V diag(1/S) Uᵀ over the singular values above max(atol, rtol times the largest). Where `rtol` is not given it is
    eps max(m, n), but 0 where `atol` is above 0. For symmetric matrices by their eigenvalues.
    """
    m, n = op.sizes(x)[-2:]
    if 0 in (m, n):
        return empty(op, op.out.sizes, x)
    u, s, v = symmetric_parts(op, x) if hermitian else decomposed(op, x)
    size = op.typed(op.Abs(s), op.sizes(s))
    if rtol is None:
        usual = op.Mul(op.const(larger(m, n), like=x), EPSILON[x.dtype])  # type: ignore[index]  # FLOAT or DOUBLE
        rtol = op.typed(usual, ()) if atol is None else _unless_given(op, atol, usual)
    largest = reduced(op, "ReduceMax", size, op.rank(size), -1)
    limit = op.Mul(_column(op, rtol, x), largest)
    kept = op.Greater(size, limit if atol is None else op.Max(_column(op, atol, x), limit))
    inverses = op.Where(kept, op.Reciprocal(op.Where(kept, s, 1)), 0)
    return op.MatMul(op.Mul(v, op.Unsqueeze(inverses, [op.rank(s) - 1])), flipped(op, u))


def _unless_given(op: Op, atol: Value, rtol: Value) -> Value:
    """A relative tolerance of 0 wherever there is an absolute one."""
    return op.typed(op.Where(op.Greater(atol, 0), op.const(0, like=rtol), rtol), op.sizes(atol))


def _column(op: Op, tolerance: Value, like: Value) -> Value:
    """A tolerance for each matrix of a batch, as it goes with its singular values."""
    return op.Unsqueeze(op.cast(tolerance, like.dtype), [op.rank(tolerance)])  # type: ignore[arg-type]  # has a dtype
