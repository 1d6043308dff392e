"""What a row of the model suite is. Rows stand in `tests/cases/models/<group>.py`, in a tuple named CASES."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Example:
    """A model with one call of it."""

    model: torch.nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    dynamic_shapes: Any = None
    constants: bool = False
    """Whether what Python asks for may become a constant."""


@dataclass(frozen=True)
class ModelCase:
    """A row: a name and what builds the example, after the seed is set. `known_gap` is a strict xfail."""

    name: str
    build: Callable[[], Example]
    known_gap: str | None = None


def ids(batch: int, length: int, vocabulary: int = 99) -> torch.Tensor:
    """Token ids that are none of the special ones."""
    return torch.randint(3, vocabulary, (batch, length))


def pixels(batch: int, size: int, channels: int = 3) -> torch.Tensor:
    return torch.randn(batch, channels, size, size)
