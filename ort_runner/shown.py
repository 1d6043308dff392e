"""Outputs to which a comparison says nothing: a model that computes something else would mostly give them, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np

from fxport.ort_runner.budget import SUBNORMAL
from fxport.ort_runner.dtypes import FLOAT, element_of
from fxport.ort_runner.samples import Samples

NO_ELEMENTS = "without elements"
"""Property of outputs that have no values to compare; their shapes are."""

NO_NUMBERS = "NaN everywhere"

FLUSHED = 64.0
"""Times the smallest normal number below which a few of its roundings are a part of the values."""

LEAST_ROWS = 4
"""Equal rows that are no chance."""

MOST_NUMBERS = 4
"""Numbers of a row that are told."""


def nothing_shown(samples: Sequence[Samples]) -> Iterator[tuple[str, str]]:
    """Yield (output, what it is in all samples) of those that show nothing.

    These are outputs without elements, with no number in them, with one number or one row everywhere, or everywhere but
    for NaN, and with subnormal numbers only. Of whole numbers and truths one number is common (ids, masks), as is one
    row of tables, and one value of a lone number: those count only where no output shows anything.
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
        return NO_NUMBERS, True
    if is_float and numbers.size < elements.size and (place := _undefined_column(arrays)) is not None:
        return f"NaN everywhere at [..., {place}]", True
    if is_float and _is_below_kernels(numbers):
        return "too small for kernels, which may give 0,", True
    is_lone = max(array.size for array in arrays) == 1
    if bool((numbers == numbers[0]).all()) and (len(arrays) > 1 or not is_lone):
        where = "everywhere" if numbers.size == elements.size else "or NaN everywhere"
        return f"{_number(numbers[0])} {where}", is_float and not is_lone
    if is_float and (row := _only_row(arrays)) is not None:
        return (
            f"[{', '.join(map(_number, row[:MOST_NUMBERS]))}{', ...' * (row.size > MOST_NUMBERS)}] in all rows",
            False,
        )
    return "", False


def _is_below_kernels(numbers: np.ndarray) -> bool:
    """Return True for numbers of which kernels that flush subnormal ones leave nothing, and a budget grants all."""
    tiny = float(ml_dtypes.finfo(numbers.dtype).tiny)
    largest = float(np.abs(numbers.astype(np.float64)).max())
    return tiny < SUBNORMAL and 0.0 < largest < FLUSHED * tiny


def _only_row(arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """The row that all rows of all arrays are, if there are some: that of a bias behind a layer of zeros, or the two
    parts of one complex number."""
    if any(array.ndim < 2 or array.shape[-1] != arrays[0].shape[-1] for array in arrays):
        return None
    rows = np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays])
    same = (rows == rows[:1]) | (np.isnan(rows) & np.isnan(rows[:1]))
    return rows[0] if len(rows) >= LEAST_ROWS and bool(same.all()) else None


def _undefined_column(arrays: Sequence[np.ndarray]) -> int | None:
    """The place along the last axis at which all rows of all arrays are NaN, such as that of imaginary parts."""
    if any(array.ndim < 2 or array.shape[-1] != arrays[0].shape[-1] for array in arrays):
        return None
    rows = np.isnan(np.concatenate([array.reshape(-1, array.shape[-1]) for array in arrays]))
    columns = np.flatnonzero(rows.all(0))
    return int(columns[0]) if columns.size and len(rows) >= LEAST_ROWS and rows.shape[-1] > 1 else None


def _number(value: np.generic) -> str:
    return (
        f"{value.item() + 0.0:.6g}" if element_of(value.dtype).kind == FLOAT else str(value)
    )  # adding 0 makes 0 of -0
