"""Usage errors: one line with the mistake, its location and the remedy."""

import difflib
import errno
import os
from collections.abc import Iterable

from fxport.diagnostics.errors import FxportError


class UsageError(FxportError):
    """A mistake in the command line or in what it names. Ends the run with exit code 2; nothing has been written."""


def unwritable(path: str | os.PathLike[str], error: OSError) -> UsageError:
    """The usage error for a file or folder that the system does not let be written: why not, and what to do."""
    remedy = "allow larger files (ulimit -f)" if error.errno == errno.EFBIG else "name another place"
    return UsageError(f"'{path}' cannot be written: {error.strerror or error}; {remedy}.")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence with the nearest known name, or with all of them when none is near and they are few."""
    names = sorted(set(known))
    by_lower: dict[str, list[str]] = {}  # a wrong capital is the nearest miss of all
    for name in names:
        by_lower.setdefault(name.lower(), []).append(name)
    if near := difflib.get_close_matches(word.lower(), by_lower, n=2, cutoff=0.7):
        found = [name for lower in near for name in by_lower[lower]]
        found.sort(key=lambda name: -difflib.SequenceMatcher(None, word, name).ratio())
        return "Did you mean " + " or ".join(f"'{name}'" for name in found[:2]) + "?"
    if 0 < len(names) <= 12:
        return "Known: " + ", ".join(names) + "."
    return ""
