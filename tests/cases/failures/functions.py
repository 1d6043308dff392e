"""Functions that models of the corpus call: the failure is here, and not in the file of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def normalized(x: torch.Tensor) -> torch.Tensor:
    total = x.sum(
        dim=-1,
        keepdim=True,
    )
    if total.amin() <= 0:
        total = total.abs() + 1e-6
    return x / total


def above(scores: torch.Tensor, limit: float) -> list[torch.Tensor]:
    return [
        row
        for row in scores
        if row.amax().item() > limit
    ]  # fmt: skip


@contextmanager
def finite(x: torch.Tensor) -> Iterator[None]:
    if torch.isinf(x).any():
        raise ValueError("a value is not finite")
    yield
