"""The form of a row: a model, the rule it must raise, and the exact part of the line that must be marked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

OPENED, CLOSED = "«", "»"


@dataclass(frozen=True)
class FailureCase:
    """`rule` must be reported at `at`: a part of exactly one line of the model's file, the marked span in « and »."""

    name: str
    kind: str
    rule: str
    at: str
    model: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = True
    """False where it is chance which part of the line is reached; the line itself is asked for all the same."""

    written_in: str | None = None
    """The file that must be named, where it is not the model's."""

    @property
    def file(self) -> str:
        """The file that must be named: as a rule the one in which the model is written."""
        if self.written_in is not None:
            return self.written_in
        found = inspect.getsourcefile(self.model)
        assert found is not None
        return found

    def place(self) -> tuple[str, int, int, int]:
        """File, line, first column and the column after the last, as a finding must have them (all is ASCII here)."""
        plain = self.at.replace(OPENED, "").replace(CLOSED, "")
        lines = Path(self.file).read_text(encoding="utf-8").splitlines()
        (line,) = [number for number, text in enumerate(lines, start=1) if plain in text and OPENED not in text]
        start = lines[line - 1].index(plain) + self.at.index(OPENED) + 1
        return self.file, line, start, start + self.at.index(CLOSED) - self.at.index(OPENED) - 1
