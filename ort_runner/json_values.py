"""Values of a parsed JSON file by their type; ValueError for what has another."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

LONGEST_SHOWN = 60
"""Characters of a value in a message."""

LARGEST = 1 << 63
"""Beyond whole numbers of 64 bits."""


def shortened(value: object) -> str:
    """A value as it is shown in a message."""
    shown = repr(value)
    return shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}…"


def text(value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def count(value: Any) -> int:
    """A whole number of 64 bits that is not below 0."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")
    if not 0 <= value < LARGEST:
        raise ValueError(f"{shortened(value)} is below 0, or has more than 64 bits")
    return value


def truth(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    return tuple(map(text, value))


def named_texts(value: Any) -> dict[str, str]:
    """A table of texts."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{value!r} is no table")
    return {text(name): text(each) for name, each in value.items()}


def counts(value: Any) -> tuple[int, ...]:
    """One number, a list of them, or none."""
    return () if value is None else tuple(map(count, value)) if isinstance(value, list) else (count(value),)


def number(value: Any) -> float:
    """A finite number."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{shortened(value)} is no number")
    return float(value)


def numbers(value: Any) -> tuple[float, ...]:
    """A list of finite numbers."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is no list")
    return tuple(map(number, value))
