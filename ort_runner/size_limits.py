"""Sizes for which a model is known to be right, as its metadata tells them: "n: at least 5 and a multiple of 2".

Words of other forms, such as relations of two sizes, are left to whoever reads the report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

CONDITIONS = "fxport.conditions"
"""Key of the model's metadata: a JSON list of conditions."""

NUMBER, STEP = r"(\d{1,18})", r"([1-9]\d{0,17})"

FORMS: Mapping[str, Callable[..., bool]] = {
    f"at least {NUMBER}": lambda size, low: size >= low,
    f"at most {NUMBER}": lambda size, high: size <= high,
    f"{NUMBER} to {NUMBER}": lambda size, low, high: low <= size <= high,
    f"exactly {NUMBER}": lambda size, only: size == only,
    f"a multiple of {STEP}": lambda size, step: size % step == 0,
    f"{NUMBER} more than a multiple of {STEP}": lambda size, rest, step: size % step == rest,
    f"{NUMBER} to {NUMBER} more than a multiple of {STEP}": (
        lambda size, low, high, step: (size - low) % step <= high - low
    ),
    f"not a multiple of {STEP}": lambda size, step: size % step != 0,
    f"not {NUMBER} more than a multiple of {STEP}": lambda size, rest, step: size % step != rest,
    f"not {NUMBER}(?: nor {NUMBER})?(?: nor {NUMBER})?": lambda size, *others: size not in others,
}
"""Forms of one condition on one size."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A condition on a dynamic size, by the name of that in the shapes of the model's inputs."""

    name: str
    words: str

    def allows(self, size: int) -> bool:
        """Return False for a size for which the model is not known to be right."""
        return all(_holds(each, size) for each in self.words.split(" and "))


def limits_in(metadata: Mapping[str, str]) -> list[Limit]:
    """Return the conditions on single sizes in a model's metadata; none where it has none, or something else there."""
    try:
        written = json.loads(metadata.get(CONDITIONS, "[]"))
    except (ValueError, RecursionError):
        return []
    found = [each.partition(": ") for each in written if isinstance(each, str)] if isinstance(written, list) else []
    return [Limit(name, words) for name, _, words in found if words]


def _holds(words: str, size: int) -> bool:
    for form, test in FORMS.items():
        if (match := re.fullmatch(form, words)) is not None:
            return test(size, *(int(each) for each in match.groups() if each is not None))
    return True
