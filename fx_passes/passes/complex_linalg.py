"""Rows of `complex_to_real`: linear algebra, by real matrices of twice the size that stand for complex ones.

A number a + ib becomes the block [a -b; b a]. Sums, products and inverses of such matrices are those of the numbers,
so that solutions and pseudo-inverses come out as such matrices again. Two arrangements are used: all real parts before
all imaginary ones, and block by block, where a triangle with a real diagonal is a triangle of twice the size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fxport.fx_passes.passes.complex_arithmetic import Row
from fxport.fx_passes.passes.complex_values import Complex, as_tensors

aten = torch.ops.aten


def embedded(z: Complex) -> torch.Tensor:
    """[..., m, n] complex as [..., 2m, 2n] real: real parts before imaginary ones."""
    re, im = as_tensors(z)
    return torch.cat([torch.cat([re, -im], -1), torch.cat([im, re], -1)], -2)


def unembedded(matrix: torch.Tensor, rows: Any) -> Complex:
    """Return the complex matrix that the left half of an `embedded` matrix stands for."""
    return Complex(matrix.narrow(-2, 0, rows), matrix.narrow(-2, rows, rows))


def _stacked(z: Complex) -> torch.Tensor:
    """[..., m, n] complex as [..., 2m, n] real: a right-hand side."""
    return torch.cat(as_tensors(z), -2)


def _left_half(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.narrow(-1, 0, matrix.shape[-1] // 2)


def _interleaved(z: Complex) -> torch.Tensor:
    """[..., m, n] complex as [..., 2m, 2n] real, block by block."""
    re, im = as_tensors(z)
    above, below = torch.stack([re, -im], -1), torch.stack([im, re], -1)
    return torch.stack([above.flatten(-2), below.flatten(-2)], -2).flatten(-3, -2)


def _of_interleaved(matrix: torch.Tensor) -> Complex:
    """Return the complex matrix from which `_interleaved` made a matrix, by the first column of each block."""
    return Complex(_every_other(matrix, 0), _every_other(matrix, 1))


def _every_other(matrix: torch.Tensor, row: int) -> torch.Tensor:
    return aten.slice.Tensor(aten.slice.Tensor(matrix, -2, row, None, 2), -1, 0, None, 2)


def mirrored(z: Complex, upper: bool) -> Complex:
    """The Hermitian matrix of which one triangle is given; its diagonal is real."""
    re, im = as_tensors(z)
    half, strict = (torch.triu, 1) if upper else (torch.tril, -1)
    one, other = half(re), half(im, strict)
    return Complex(one + half(re, strict).mT, other - other.mT)


def solve_ex(a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> list[Any]:
    """The factors, which serve gradients only, are not given."""
    matrix, right = Complex.of(a), Complex(*as_tensors(Complex.of(b)))
    square = as_tensors(matrix)[0]
    sizes = as_tensors(right)[0].shape
    vectors = len(sizes) == 1 or (len(sizes) == square.dim() - 1 and sizes == square.shape[:-1])
    right = Complex(*(part.unsqueeze(-1) for part in as_tensors(right))) if vectors else right
    if not left:
        matrix, right = flipped(matrix), flipped(right)
    x, _, _, info = aten._linalg_solve_ex.default(embedded(matrix), _stacked(right))
    z = unembedded(x, square.shape[-1])
    z = z if left else flipped(z)
    return [Complex(*(part.squeeze(-1) for part in as_tensors(z))) if vectors else z, None, None, info]


def flipped(z: Complex) -> Complex:
    return Complex(*(part.mT for part in as_tensors(z)))


def _solve_triangular(a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Complex:
    """A triangle of blocks, whose other triangle is not read."""
    return solve_ex(_triangle(Complex.of(a), upper, unitriangular), b, left=left)[0]


def _triangle(z: Complex, upper: bool, unit: bool = False) -> Complex:
    re, im = (torch.triu(part) if upper else torch.tril(part) for part in as_tensors(z))
    if not unit:
        return Complex(re, im)
    one = torch.eye(re.shape[-1], dtype=re.dtype, device=re.device)
    return Complex(torch.where(one == 1, one, re), torch.where(one == 1, 0.0, im))


def _triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> list[Any]:
    triangle = _triangle(Complex.of(a), upper, unitriangular)
    solution = solve_ex(flipped(triangle) if transpose else triangle, b)[0]
    batch = as_tensors(solution)[0].shape[:-2]
    return [solution, Complex(*(part.expand(*batch, -1, -1) for part in as_tensors(Complex.of(a))))]


def _cholesky_ex(x: Any, *, upper: bool = False, check_errors: bool = False) -> list[Any]:
    """The factor's diagonal is real, so that its blocks are a triangle as well. Two rows of it are one."""
    matrix = _interleaved(mirrored(Complex.of(x), upper))
    factor, info = aten.linalg_cholesky_ex.default(matrix, upper=upper)
    return [_of_interleaved(factor), torch.div(info + 1, 2, rounding_mode="floor")]


def _cholesky(x: Any, upper: bool = False) -> Complex:
    return _cholesky_ex(x, upper=upper)[0]


def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Complex:
    """Two triangles, whose diagonal may be anything."""
    triangle = _triangle(Complex.of(factor), upper)
    turned = flipped(triangle).conj
    lower, above = (turned, triangle) if upper else (triangle, turned)
    return solve_ex(above, solve_ex(lower, b)[0])[0]


def _cholesky_inverse(factor: Any, upper: bool = False) -> Complex:
    return _of_interleaved(aten.cholesky_inverse.default(_interleaved(_triangle(Complex.of(factor), upper)), upper))


def _pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Complex:
    z = Complex.of(x)
    z = mirrored(z, upper=False) if hermitian else z
    rows, columns = as_tensors(z)[0].shape[-2:]
    if rtol is None:  # the usual one is by the sizes, which are doubled here
        dtype = as_tensors(z)[0].dtype
        usual = torch.full((), torch.finfo(dtype).eps * max(rows, columns), dtype=dtype)
        rtol = usual if atol is None else torch.where(atol > 0, torch.zeros_like(usual), usual)
    inverse = aten.linalg_pinv.atol_rtol_tensor(embedded(z), atol=atol, rtol=rtol, hermitian=hermitian)
    return unembedded(_left_half(inverse), columns)


def _inverse(x: Any, *, check_errors: bool = False) -> list[Any]:
    z = Complex.of(x)
    inverse, info = aten.linalg_inv_ex.default(embedded(z))
    return [unembedded(_left_half(inverse), as_tensors(z)[0].shape[-1]), info]


def _matrix_exp(x: Any) -> Complex:
    z = Complex.of(x)
    return unembedded(_left_half(aten.linalg_matrix_exp.default(embedded(z))), as_tensors(z)[0].shape[-1])


ROWS: Mapping[Any, Row] = {
    aten._linalg_solve_ex.default: solve_ex,
    **({aten.cholesky.default: _cholesky} if hasattr(aten, "cholesky") else {}),  # PyTorch 2.15 has it no longer
    aten.cholesky_inverse.default: _cholesky_inverse,
    aten.cholesky_solve.default: _cholesky_solve,
    aten.linalg_cholesky_ex.default: _cholesky_ex,
    aten.linalg_inv_ex.default: _inverse,
    aten.linalg_matrix_exp.default: _matrix_exp,
    aten.linalg_pinv.atol_rtol_tensor: _pinv,
    aten.linalg_solve_triangular.default: _solve_triangular,
    aten.triangular_solve.default: _triangular_solve,
}
