"""Amounts in words."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB")


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def size(amount: float) -> str:
    """Bytes in the unit that gives at most three digits before the point."""
    for unit in UNITS[:-1]:
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} {UNITS[-1]}"
