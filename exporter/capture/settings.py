"""Settings of the whole process that a model may read and change: a table, by what reads them."""

from __future__ import annotations

import decimal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A setting of the whole process: how it is read and put back, and what code calls to change it."""

    get: Callable[[], Any]
    put: Callable[[Any], Any]
    changed_by: str


def _context() -> decimal.Context:
    """Return the settings of `decimal` without the flags that its arithmetic sets."""
    context = decimal.getcontext().copy()
    context.clear_flags()
    return context


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


SETTINGS: Mapping[str, Setting] = {
    "torch.get_default_dtype()": Setting(torch.get_default_dtype, torch.set_default_dtype, "set_default_dtype"),
    "torch.are_deterministic_algorithms_enabled()": Setting(
        _deterministic,
        lambda was: torch.use_deterministic_algorithms(was[0], warn_only=was[1]),
        "use_deterministic_algorithms",
    ),
    "torch.get_float32_matmul_precision()": Setting(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "set_float32_matmul_precision"
    ),
    "decimal.getcontext()": Setting(_context, lambda was: decimal.setcontext(was.copy()), "getcontext"),
    "sys.getrecursionlimit()": Setting(sys.getrecursionlimit, sys.setrecursionlimit, "setrecursionlimit"),
}
"""Settings of the process that a model may change, by what reads them."""
