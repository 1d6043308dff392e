"""Calls that look at data to answer or to refuse, rewritten in calls that a graph can hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.nn import functional as F

from fxport.fx_passes.decompositions.synonyms import narrow


def _allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return a truth value that only a run of the model knows."""
    return torch.isclose(input, other, rtol, atol, equal_nan).all().item()


def _equal(input: Tensor, other: Tensor) -> Any:
    """Return whether tensors are equal; those of other sizes are not, whatever they hold."""
    return input.shape == other.shape and (input == other).all().item()


def _is_nonzero(x: Tensor) -> Any:
    return (x != 0).item()


def _gaussian_nll_loss(
    mean: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """Return 0.5 (log var + (mean - target)² / var) without a look for a negative variance: a graph raises nothing.

    A variance for each row is one for all of its elements.
    """
    if not isinstance(var, Tensor) or reduction not in REDUCED:
        return NotImplemented
    if var.shape != mean.shape:
        if mean.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif mean.dim() != var.dim() or sum(b for a, b in zip(mean.shape, var.shape, strict=True) if a != b) != 1:
            raise ValueError("var is of incorrect size")
    var = var.clone()
    with torch.no_grad():  # its gradient passes what is clamped
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (mean - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return REDUCED[reduction](loss)


def _one_hot(x: Tensor, num_classes: Any = -1) -> Any:
    """Compare with each class; without a number of classes, with as many as the largest index asks for.

    PyTorch's check that no class is beyond the last is one of data.
    """
    if isinstance(num_classes, SymInt):
        count: Any = num_classes  # the stubs know no symbolic sizes
    elif num_classes != -1 or not x.numel():
        return NotImplemented
    else:
        count = x.max().item() + 1
    return (x.unsqueeze(-1) == torch.arange(count, device=x.device)).to(torch.int64)


def _lstsq(a: Tensor, b: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """Solve by the pseudoinverse, whose solution is the shortest where the matrix lacks rank, as LAPACK's is.

    The drivers "gelsd" and "gelss" give residuals for matrices of full rank only, which is another shape otherwise.
    """
    if driver not in {None, "gelsy", "gels"}:
        return NotImplemented
    columns = b.unsqueeze(-1) if b.dim() == 1 or b.shape == a.shape[:-1] else b
    solution = torch.linalg.pinv(a, rtol=rcond) @ columns
    nothing = solution.real.new_empty(0)
    rank, residuals = torch.linalg.matrix_rank(a, rtol=rcond), nothing
    if driver == "gels":
        rank = nothing.to(torch.int64)
        gap = a @ solution - columns
        size = gap.abs() if gap.is_complex() else gap
        residuals = size.square().sum(-2) if a.shape[-2] > a.shape[-1] else nothing
    solution = solution if columns is b else solution.squeeze(-1)
    named: Any = torch.return_types.linalg_lstsq  # type: ignore[attr-defined]  # made in C++
    return named((solution, residuals, rank, nothing))


def _narrow(x: Tensor, dim: int, start: Any, length: int) -> Any:
    return narrow(x, dim, start, length) if isinstance(start, Tensor) else NotImplemented


def _native_dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """Return a copy where nothing is dropped, for which PyTorch's shape rule gives back the tensor itself."""
    return NotImplemented if train else (x.clone(), torch.ones_like(x, dtype=torch.bool))


REDUCED: Mapping[str, Callable[[Tensor], Tensor]] = {"none": lambda loss: loss, "mean": torch.mean, "sum": torch.sum}


REWRITES: Mapping[Any, Callable[..., Any]] = {
    torch.allclose: _allclose,
    Tensor.allclose: _allclose,
    torch.equal: _equal,
    Tensor.equal: _equal,
    torch.is_nonzero: _is_nonzero,
    Tensor.is_nonzero: _is_nonzero,
    torch.narrow: _narrow,
    Tensor.narrow: _narrow,
    torch.native_dropout: _native_dropout,
    F.one_hot: _one_hot,
    torch.linalg.lstsq: _lstsq,
    F.gaussian_nll_loss: _gaussian_nll_loss,
}
"""Each answers NotImplemented where PyTorch's own function serves."""
