"""Factorizations of complex matrices in real tensors [..., m, n, 2]: ops of our own.

They stand in a graph between `complex_to_real` and lowering, and compute in eager PyTorch what ATen's ops compute.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.contiguous())


def _real(z: Tensor) -> Tensor:
    return torch.view_as_real(z.resolve_conj()).contiguous()


@torch.library.custom_op("fxport::lu_factor", mutates_args=())
def lu_factor(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both factors in one matrix, LAPACK's pivots, and its info."""
    lu, pivots, info = torch.linalg.lu_factor_ex(_complex(x))
    return _real(lu), pivots, info


@torch.library.custom_op("fxport::geqrf", mutates_args=())
def geqrf(x: Tensor) -> tuple[Tensor, Tensor]:
    """R with the reflections below its diagonal, and their factors."""
    a, tau = torch.geqrf(_complex(x))
    return _real(a), _real(tau)


@torch.library.custom_op("fxport::unmqr", mutates_args=())
def unmqr(a: Tensor, tau: Tensor, c: Tensor, adjoint: bool) -> Tensor:
    """Q C, or Qᴴ C, for the reflections of `geqrf`."""
    return _real(torch.ormqr(_complex(a), _complex(tau), _complex(c), True, adjoint))


@torch.library.custom_op("fxport::eigh", mutates_args=())
def eigh(x: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of Hermitian matrices."""
    values, vectors = torch.linalg.eigh(_complex(x))
    return values, _real(vectors)


@torch.library.custom_op("fxport::eig", mutates_args=())
def eig(x: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues and, if asked for, eigenvectors of square matrices."""
    if not vectors:
        return _real(torch.linalg.eigvals(_complex(x))), x.new_empty(0)
    values, found = torch.linalg.eig(_complex(x))
    return _real(values), _real(found)


@torch.library.custom_op("fxport::svd", mutates_args=())
def svd(x: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """U, the singular values, and Vᴴ."""
    u, s, vh = torch.linalg.svd(_complex(x), full_matrices=full)
    return _real(u), s, _real(vh)


def _smaller(x: Tensor) -> Any:
    return torch.sym_min(x.shape[-3], x.shape[-2])


@lu_factor.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch = x.shape[:-3]
    pivots = x.new_empty((*batch, _smaller(x)), dtype=torch.int32)
    return torch.empty_like(x), pivots, x.new_empty(batch, dtype=torch.int32)


@geqrf.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty((*x.shape[:-3], _smaller(x), 2))


@unmqr.register_fake
def _(a: Tensor, tau: Tensor, c: Tensor, adjoint: bool) -> Tensor:
    return torch.empty_like(c)


@eigh.register_fake
def _(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[:-2]), torch.empty_like(x)


@eig.register_fake
def _(x: Tensor, vectors: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty((*x.shape[:-2], 2)), torch.empty_like(x) if vectors else x.new_empty(0)


@svd.register_fake
def _(x: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    *batch, m, n, _ = x.shape
    k = _smaller(x)
    return (
        x.new_empty((*batch, m, m if full else k, 2)),
        x.new_empty((*batch, k)),
        x.new_empty((*batch, n if full else k, n, 2)),
    )
