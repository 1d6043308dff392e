"""Rows of `complex_to_real`: factorizations of complex matrices, as the ops of `fxport.fx_passes.complex_matrices`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fxport.fx_passes import complex_matrices  # noqa: F401  # registers the ops
from fxport.fx_passes.passes.complex_arithmetic import Row
from fxport.fx_passes.passes.complex_axes import packed
from fxport.fx_passes.passes.complex_linalg import embedded, flipped, mirrored, solve_ex
from fxport.fx_passes.passes.complex_reductions import product_along
from fxport.fx_passes.passes.complex_values import Complex, NoRealForm, Packed, as_tensors

aten, fxport = torch.ops.aten, torch.ops.fxport


def _qr(x: Any, mode: str = "reduced") -> list[Any]:
    re, im = as_tensors(Complex.of(x))
    held, taus = fxport.geqrf.default(torch.stack([re, im], -1))
    rows, columns = re.shape[-2:]
    wide = rows if mode == "complete" else _smaller(rows, columns)
    r = Complex(*(torch.triu(part.narrow(-2, 0, wide)) for part in held.unbind(-1)))
    if mode == "r":
        return [Complex(re.new_zeros(0), 0.0), r]
    return [Packed(fxport.unmqr.default(held, taus, _eye(re, rows, wide), False)), r]


def _smaller(a: Any, b: Any) -> Any:
    return torch.sym_min(a, b)


def _eye(like: torch.Tensor, rows: Any, columns: Any) -> torch.Tensor:
    """The first columns of identities for a batch, with a last axis of 2."""
    one = torch.eye(rows, columns, dtype=like.dtype, device=like.device)
    one = torch.stack([one, torch.zeros_like(one)], -1)
    return one.expand(*like.shape[:-2], rows, columns, 2)


def _geqrf(x: Any) -> list[Any]:
    held, taus = fxport.geqrf.default(packed(x))
    return [Packed(held), Packed(taus)]


def _householder_product(x: Any, tau: Any) -> Packed:
    held = packed(x)
    rows, columns = held.shape[-3:-1]
    return Packed(fxport.unmqr.default(held, packed(tau), _eye(held.select(-1, 0), rows, columns), False))


def _ormqr(x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Packed:
    """C Q is the adjoint of Qᴴ Cᴴ."""
    held, c = packed(x), Complex.of(other)
    c = Complex(*as_tensors(c)) if left else flipped(c).conj
    right = torch.stack(as_tensors(c), -1)
    right = right.expand(*torch.broadcast_shapes(held.shape[:-3], right.shape[:-3]), *right.shape[-3:])
    found = Packed(fxport.unmqr.default(held, packed(tau), right, transpose == left))
    return found if left else Packed(parts=flipped(found.parts).conj)


def _lu_factor_ex(x: Any, *, pivot: bool = True, check_errors: bool = False) -> list[Any]:
    if not pivot:
        raise NoRealForm("LU without pivoting is not stable, and PyTorch itself has it for CUDA only")
    lu, pivots, info = fxport.lu_factor.default(packed(x))
    return [Packed(lu), pivots, info]


def _lu(x: Any, *, pivot: bool = True) -> list[Any]:
    lu, pivots, _ = _lu_factor_ex(x, pivot=pivot)
    return _lu_unpack(lu, pivots)


def _lu_unpack(lu: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> list[Any]:
    """The parts are unpacked as real matrices, but for the ones on the diagonal of an imaginary one."""
    re, im = as_tensors(Complex.of(lu))
    p, lower, upper = aten.lu_unpack.default(re, pivots, unpack_data, unpack_pivots)
    if not unpack_data:
        return [Complex(p, 0.0), Complex(lower, 0.0), Complex(upper, 0.0)]
    wide = _smaller(*re.shape[-2:])
    below = torch.tril(im.narrow(-1, 0, wide), -1)
    return [Complex(p, 0.0), Complex(lower, below), Complex(upper, torch.triu(im.narrow(-2, 0, wide)))]


def _lu_solve(lu: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Complex:
    """By the triangles, one after the other; from the right, the adjoint system."""
    p, lower, upper = _lu_unpack(lu, pivots)
    order = p.re
    right = Complex(*as_tensors(Complex.of(b)))
    right = right if left else flipped(right).conj
    if adjoint != left:
        found = _solve(upper, _solve(lower, Complex(*(order.mT @ part for part in as_tensors(right)))))
    else:
        found = _solve(flipped(lower).conj, _solve(flipped(upper).conj, right))
        found = Complex(*(order @ part for part in as_tensors(found)))
    return found if left else flipped(found).conj


def _solve(a: Complex, b: Complex) -> Complex:
    return solve_ex(a, b)[0]


def _det(x: Any) -> list[Any]:
    """The product of the pivots, negative for an odd number of swaps. What serves gradients only is not given."""
    values, sign = _pivots(x)
    return [product_along(values, -1, False).scaled(sign), None, None]


def _slogdet(x: Any) -> list[Any]:
    values, sign = _pivots(x)
    size = values.abs
    assert isinstance(size, torch.Tensor)
    nought = size == 0
    unit = values / Complex(torch.where(nought, 1.0, size), 0.0)
    return [product_along(unit, -1, False).scaled(sign), torch.sum(torch.log(size), -1), None, None]


def _pivots(x: Any) -> tuple[Complex, torch.Tensor]:
    """The diagonal of U, and the sign of the swaps."""
    lu, pivots, _ = fxport.lu_factor.default(packed(x))
    values = Complex(*(torch.diagonal(part, 0, -2, -1) for part in lu.unbind(-1)))
    unmoved = pivots == torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    return values, torch.prod(torch.where(unmoved, 1.0, -1.0).to(lu.dtype), -1)


def _svd(x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> list[Any]:
    """Without vectors by the real matrix, of which each singular value comes twice."""
    if compute_uv:
        u, values, vh = fxport.svd.default(packed(x), full_matrices)
        return [Packed(u), values, Packed(vh)]
    _, values, _ = aten._linalg_svd.default(embedded(Complex.of(x)), False, False)
    nothing = Complex(values.new_zeros(0), 0.0)
    return [nothing, aten.slice.Tensor(values, -1, 0, None, 2), nothing]


def _eigh(a: Any, uplo: str = "L", compute_v: bool = True) -> list[Any]:
    """Without vectors by the real matrix, of which each eigenvalue comes twice."""
    whole = mirrored(Complex.of(a), uplo.upper() == "U")
    if compute_v:
        values, vectors = fxport.eigh.default(torch.stack(as_tensors(whole), -1))
        return [values, Packed(vectors)]
    values, _ = aten._linalg_eigh.default(embedded(whole), "L", False)
    return [aten.slice.Tensor(values, -1, 0, None, 2), Complex(values.new_zeros(0), 0.0)]


def _eig(x: Any) -> list[Any]:
    """Real matrices as well: those, too, have complex eigenvalues."""
    values, vectors = fxport.eig.default(packed(x), True)
    return [Packed(values), Packed(vectors)]


def _eigvals(x: Any) -> Packed:
    return Packed(fxport.eig.default(packed(x), False)[0])


ROWS: Mapping[Any, Row] = {
    aten._linalg_det.default: _det,
    aten._linalg_eigh.default: _eigh,
    aten._linalg_eigvals.default: _eigvals,
    aten._linalg_slogdet.default: _slogdet,
    aten._linalg_svd.default: _svd,
    aten.geqrf.default: _geqrf,
    aten.linalg_eig.default: _eig,
    aten.linalg_eigvals.default: _eigvals,
    aten.linalg_householder_product.default: _householder_product,
    aten.linalg_lu.default: _lu,
    aten.linalg_lu_factor_ex.default: _lu_factor_ex,
    aten.linalg_lu_solve.default: _lu_solve,
    aten.linalg_qr.default: _qr,
    aten.lu_unpack.default: _lu_unpack,
    aten.ormqr.default: _ormqr,
}
