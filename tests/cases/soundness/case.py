"""The form of a row: a model that must equal eager PyTorch at every input, or be refused at one line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Inputs = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Row:
    """A model and inputs at which it is compared, the first of which is the example.

    Without `refused_at` the model must export and equal eager PyTorch at each of `inputs`. With it the export must end
    with an error at a line of the model's file that contains this text. `build` makes a fresh model, and resets
    what is outside of it. `known_gap` is a strict xfail with its reason.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    dynamic_shapes: Any = None
    refused_at: str | None = None
    or_right: bool = False
    """The sizes that the report leaves out do not count; with `refused_at`, the model may also export and be right."""

    known_gap: str | None = None
    kind: str = ""
    """The class of programs: what an exporter gets wrong in silence if it is careless."""

    @property
    def places(self) -> set[tuple[str, int]]:
        """File and lines that contain `refused_at`: as a rule one, else the construct and what it calls."""
        file = inspect.getsourcefile(self.build)
        assert file is not None
        assert self.refused_at is not None
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        in_code = [text.replace(f'"{self.refused_at}"', "") for text in lines]
        found = {(file, number) for number, text in enumerate(in_code, start=1) if self.refused_at in text}
        assert found, f"no line has {self.refused_at!r}"
        return found


WRONG = "exported, with other values and without a word"
REFUSED = "refused, though it can be captured"
ELSEWHERE = "refused, but not at its line"
"""Reasons of known gaps."""


def of(kind: str, *rows: Row) -> tuple[Row, ...]:
    """The rows of one kind."""
    return tuple(replace(row, kind=kind) for row in rows)


def drawn(*shape: int, seed: int = 0, shift: float = 0.0) -> Tensor:
    """Random numbers near `shift`."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) + shift


ROWS = ({0: "n"},)
"""The first dimension of the only input is dynamic."""

COLUMNS = ({1: "n"},)
"""The second one."""

SIZES: Inputs = ((drawn(3, 4, shift=0.5),), (drawn(5, 4, seed=1, shift=-0.5),), (drawn(2, 4, seed=2),))
"""Three inputs of [n, 4]: of a positive sum, of a negative one, and between."""

FLAT: Inputs = ((drawn(4, shift=0.75),), (drawn(4, seed=1, shift=-0.75),), (drawn(4, seed=2),))
"""Three inputs of [4]: of a positive sum, of a negative one, and between."""

FIXED: Inputs = ((drawn(3, 4),), (drawn(3, 4, seed=1, shift=-0.5),), (drawn(3, 4, seed=2, shift=0.5),))
"""Three inputs of [3, 4]."""

WIDE: Inputs = ((drawn(2, 4, shift=0.5),), (drawn(2, 6, seed=1, shift=-0.5),), (drawn(2, 3, seed=2),))
"""Three inputs of [2, n]."""
