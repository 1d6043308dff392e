"""Eigenvalues and eigenvectors of matrices that are not symmetric: what they have to fulfil, whatever their order."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch.export import Dim

from tests.running import run_exported

DOUBLE, COMPLEX = torch.float64, torch.complex128


class Eig(torch.nn.Module):
    def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, vectors = torch.linalg.eig(a)
        return values, vectors, torch.linalg.eigvals(a)


def random(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, dtype=dtype, generator=torch.Generator().manual_seed(sizes[-1]))


def jordan(n: int, value: float) -> torch.Tensor:
    return value * torch.eye(n, dtype=DOUBLE) + torch.diag(torch.ones(n - 1, dtype=DOUBLE), 1)


SAMPLES = {
    "float32": random(4, 6, 6),
    "float64": random(2, 2, 5, 5, dtype=DOUBLE),
    "complex64": random(3, 5, 5, dtype=torch.complex64),
    "complex128": random(3, 6, 6, dtype=COMPLEX),
    "larger": random(12, 12),
    "symmetric": random(6, 6) + random(6, 6).mT,
    "Hermitian": random(5, 5, dtype=COMPLEX) + random(5, 5, dtype=COMPLEX).mH,
    "rotation": torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=DOUBLE),
    "cyclic": torch.eye(6, dtype=DOUBLE).roll(1, 0),
    "companion": torch.tensor([[6.0, -11.0, 6.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=DOUBLE),
    "identity": torch.eye(4),
    "zero": torch.zeros(2, 4, 4),
    "one": torch.tensor([[-3.0]]),
    "upper": random(5, 5).triu(),
    "lower": random(5, 5).tril(),
    "graded": torch.tensor([[1e8, 1.0, 0.0], [2.0, 1.0, 1e-6], [0.0, 3e-6, 1e-8]], dtype=DOUBLE),
    "small": random(4, 4) * 1e-25,
    "different": torch.stack([jordan(4, 2.0), torch.eye(4, dtype=DOUBLE).roll(1, 0), random(4, 4, dtype=DOUBLE)]),
}

DEFECTIVE = {
    "Jordan": jordan(5, 2.0),
    "nilpotent": jordan(4, 0.0),
    "transposed": jordan(4, 1.0).mT.contiguous(),
    "two blocks": torch.block_diag(jordan(3, -1.0), jordan(2, -1.0)),
}


def run(a: torch.Tensor) -> list[torch.Tensor]:
    return [each[..., 0] + 1j * each[..., 1] for each in run_exported(Eig(), [(a,)])[0]]


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """How far eigenvalues are from those expected, each from the nearest one that no other has taken."""
    worst = 0.0
    for mine, theirs in zip(found.reshape(-1, found.shape[-1]), expected.reshape(-1, found.shape[-1]), strict=True):
        left = theirs.tolist()
        for value in mine.tolist():
            nearest = min(left, key=lambda other: abs(other - value))
            worst = max(worst, abs(nearest - value))
            left.remove(nearest)
    return worst


@pytest.mark.parametrize("name", [*SAMPLES, *DEFECTIVE])
def test_eigenpairs(name: str) -> None:
    a = {**SAMPLES, **DEFECTIVE}[name]
    values, vectors, alone = run(a)
    unit = 100 * torch.finfo(values.dtype).eps
    size = float(torch.linalg.matrix_norm(a, 2).max())
    whole = a.to(values.dtype)
    assert (whole @ vectors - vectors * values.unsqueeze(-2)).abs().max().item() <= unit * size
    assert (torch.linalg.vector_norm(vectors, dim=-2) - 1).abs().max().item() <= unit
    assert torch.equal(values, alone)
    if name in SAMPLES and name != "different":
        assert distance(values, torch.linalg.eigvals(a)) <= unit * size


@pytest.mark.parametrize("name", ["float32", "float64", "cyclic", "larger"])
def test_conjugate_pairs_of_real_matrices_stand_together(name: str) -> None:
    for row in run(SAMPLES[name])[0].reshape(-1, SAMPLES[name].shape[-1]).tolist():
        turning = [value for value in row if value.imag]
        assert all(value.imag > 0 and value == other.conjugate() for value, other in list(pairwise(turning))[::2])


def test_sizes_may_be_dynamic() -> None:
    batch, n = Dim("batch"), Dim("n")
    samples = [(random(2, 3, 3),), (random(1, 1, 1),), (random(3, 6, 6),), (random(0, 2, 2),)]
    found = run_exported(Eig(), samples, dynamic_shapes=({0: batch, 1: n, 2: n},))
    for (a,), results in zip(samples, found, strict=True):
        values, vectors, _ = (each[..., 0] + 1j * each[..., 1] for each in results)
        assert values.shape == a.shape[:-1]
        assert vectors.shape == a.shape
        assert torch.allclose(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), atol=1e-5)


def test_matrices_without_elements() -> None:
    assert [tuple(each.shape) for each in run(torch.zeros(2, 0, 0))] == [(2, 0), (2, 0, 0), (2, 0)]
