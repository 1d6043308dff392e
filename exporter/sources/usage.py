"""Usage errors: one line with the mistake, its location and the remedy."""

import difflib
from collections.abc import Iterable

from fxport.diagnostics.errors import FxportError


class UsageError(FxportError):
    """A mistake in the command line or in what it names. Ends the run with exit code 2; nothing has been written."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name, or with all of them when none is near and they are few."""
    names = sorted(set(known))
    by_lower = {name.lower(): name for name in names}  # a wrong capital is the nearest miss of all
    if near := difflib.get_close_matches(word.lower(), by_lower, n=2, cutoff=0.7):
        return "Did you mean " + " or ".join(f"'{by_lower[name]}'" for name in near) + "?"
    if 0 < len(names) <= 12:
        return "Known: " + ", ".join(names) + "."
    return ""
