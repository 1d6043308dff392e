"""Outputs to which a comparison says nothing: a model that computes something else would mostly give them, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.samples import Samples

NO_ELEMENTS = "without elements"
"""Property of outputs that have no values to compare; their shapes are."""


def nothing_shown(samples: Sequence[Samples]) -> Iterator[tuple[str, str]]:
    """Yield (output, what it is in all samples) of those that show nothing.

    These are outputs without elements, with no number in them, and with one number everywhere, or everywhere but for
    NaN. Of whole numbers and truths the latter is common (ids, masks): those count only where no output shows anything.
    """
    names = dict.fromkeys(name for each in samples for name in each.outputs)
    found = {name: _detail([each.outputs[name] for each in samples if name in each.outputs]) for name in names}
    nothing = all(detail for detail, _ in found.values())
    for name, (detail, is_sure) in found.items():
        if detail and (is_sure or nothing):
            yield name, detail


def _detail(arrays: Sequence[np.ndarray]) -> tuple[str, bool]:
    """Return the property common to all arrays ("" if there is none), and True if that alone is a reason for doubt."""
    elements = np.concatenate([array.reshape(-1) for array in arrays])
    if not elements.size:
        return NO_ELEMENTS, True
    is_float = element_of(elements.dtype).kind == FLOAT
    numbers = elements[~np.isnan(elements)] if is_float else elements
    if not numbers.size:
        return "NaN everywhere", True
    if max(array.size for array in arrays) > 1 and bool((numbers == numbers[0]).all()):
        where = "everywhere" if numbers.size == elements.size else "or NaN everywhere"
        value = f"{numbers[0].item() + 0.0:.6g}" if is_float else str(numbers[0])  # adding 0 makes 0 of -0
        return f"{value} {where}", is_float
    return "", False
