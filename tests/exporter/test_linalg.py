"""Factorizations whose vectors have free signs: what they have to fulfil, against the matrices they were made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.running import run_exported

DOUBLE, COMPLEX = torch.float64, torch.complex128

Function = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


class Called(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.function(a))


def run(function: Function, a: torch.Tensor) -> list[torch.Tensor]:
    """The results in ONNX Runtime; of a complex matrix those with a last axis of 2 are complex."""
    results = run_exported(Called(function), [(a,)])[0]
    if not a.is_complex():
        return results
    return [each if each.dim() < a.dim() else torch.view_as_complex(each) for each in results]


def near(actual: torch.Tensor, expected: torch.Tensor, scale: float) -> None:
    """Equal to within 100 times the distance from 1 to the next number, on the scale of the matrix."""
    assert (actual - expected).abs().max().item() <= 100 * torch.finfo(actual.dtype).eps * scale


def symmetric(n: int, dtype: torch.dtype) -> torch.Tensor:
    a = torch.randn(3, n, n, dtype=dtype, generator=torch.Generator().manual_seed(n))
    return a + a.mT


def repeated() -> torch.Tensor:
    """Eigenvalues 3, 3, 3 and 7, in a basis that no axis belongs to."""
    q = torch.linalg.qr(torch.randn(4, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))).Q
    return (q * torch.tensor([3.0, 7.0, 3.0, 3.0], dtype=DOUBLE)) @ q.mT


SYMMETRIC = {
    "float32": symmetric(6, torch.float32),
    "odd": symmetric(5, DOUBLE),
    "large": symmetric(40, torch.float32),
    "repeated": repeated(),
    "diagonal": torch.diag(torch.tensor([2.0, -1.0, 0.0])),
    "zero": torch.zeros(3, 3),
    "small": symmetric(4, torch.float32) * 1e-25,
    "graded": torch.tensor([[1e8, 1.0, 0.0], [1.0, 1.0, 1e-6], [0.0, 1e-6, 1e-8]], dtype=DOUBLE),
}


def hermitian(n: int, dtype: torch.dtype) -> torch.Tensor:
    a = torch.randn(3, n, n, dtype=dtype, generator=torch.Generator().manual_seed(n))
    return a + a.mH


def unitary(n: int) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(n, n, dtype=COMPLEX, generator=torch.Generator().manual_seed(n))).Q


HERMITIAN = {
    "complex64": hermitian(5, torch.complex64),
    "complex128": hermitian(6, COMPLEX),
    "large complex": hermitian(24, torch.complex64),
    "repeated complex": unitary(4) @ torch.diag(torch.tensor([3, 7, 3, 3], dtype=COMPLEX)) @ unitary(4).mH,
    "one": torch.eye(4, dtype=COMPLEX),
    "nought": torch.zeros(3, 3, dtype=COMPLEX),
    "imaginary": torch.tensor([[0, 1j], [-1j, 0]], dtype=COMPLEX),
}

RECTANGULAR = {
    "tall": torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(1)),
    "wide": torch.randn(3, 8, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)),
    "large": torch.randn(48, 33, generator=torch.Generator().manual_seed(3)),
    "rank one": torch.ones(5, 4),
    "zero": torch.zeros(4, 3),
    "repeated": repeated(),
    "small": torch.randn(5, 5, generator=torch.Generator().manual_seed(4)) * 1e-25,
    "graded": SYMMETRIC["graded"],
    "complex tall": torch.randn(2, 6, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(5)),
    "complex wide": torch.randn(3, 7, dtype=COMPLEX, generator=torch.Generator().manual_seed(6)),
    "complex rank one": torch.ones(4, 3, dtype=COMPLEX) * (1 + 2j),
    "complex zero": torch.zeros(3, 2, dtype=COMPLEX),
    "unitary": unitary(4),
}


@pytest.mark.parametrize("name", [*SYMMETRIC, *HERMITIAN])
def test_eigenvectors(name: str) -> None:
    a = {**SYMMETRIC, **HERMITIAN}[name]
    values, vectors = run(torch.linalg.eigh, a)
    size = float(torch.linalg.matrix_norm(a, 2).max())
    near(a @ vectors, vectors * values.unsqueeze(-2), size)
    near(vectors.mH @ vectors, torch.eye(a.shape[-1], dtype=a.dtype), 1.0)
    near(values, torch.linalg.eigvalsh(a), size)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", RECTANGULAR)
def test_singular_vectors(name: str, full: bool) -> None:
    a = RECTANGULAR[name]
    u, s, vh = run(lambda x: torch.linalg.svd(x, full_matrices=full), a)
    k, size = s.shape[-1], float(torch.linalg.matrix_norm(a, 2).max())
    near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, size)
    near(u.mH @ u, torch.eye(u.shape[-1], dtype=a.dtype), 1.0)
    near(vh @ vh.mH, torch.eye(vh.shape[-2], dtype=a.dtype), 1.0)
    near(s, torch.linalg.svdvals(a), size)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 65])
def test_solutions_are_as_good_as_those_of_pytorch(n: int) -> None:
    a = torch.randn(2, n, n, generator=torch.Generator().manual_seed(n))
    b = torch.randn(2, n, 3, generator=torch.Generator().manual_seed(n))
    (x,) = run(lambda x: (torch.linalg.solve(x, b),), a)
    near(a @ x, b, float((torch.linalg.matrix_norm(a, 2) * torch.linalg.matrix_norm(x, 2)).max()))
