"""Amounts in words."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB")


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


LEAST_SHARE = 1e-4
LESS = f"less than {100 * LEAST_SHARE:g}% of the allowed error"
MOST_SHARE = 10
MORE = f"more than {100 * MOST_SHARE}%"


def allowed(ratio: float) -> str:
    """An error in parts of what its budget allows: "13% of the allowed error", "4.2 times the allowed error"."""
    if ratio > 1:
        return f"{ratio:.3g} times the allowed error"
    return f"{100 * ratio:.2g}% of the allowed error" if ratio >= LEAST_SHARE or not ratio else LESS


def percent(share: float) -> str:
    """A part of the whole: "2%", "150%", "more than 1000%"."""
    return f"{100 * share:.2g}%" if share <= 1 else f"{100 * share:.0f}%" if share <= MOST_SHARE else MORE


def size(amount: float) -> str:
    """Bytes in the unit that gives at most three digits before the point."""
    for unit in UNITS[:-1]:
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} {UNITS[-1]}"
