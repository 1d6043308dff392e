"""Dicts and sets that are asked for a dynamic size, a number of data, or a tuple with one: Python would hash it.

table[x.shape[0]]                        _steps.element(table, x.shape[0])
x.shape[0] in {1, 2, 4}                  _steps.among(x.shape[0], {1, 2, 4})
table.get(x.shape[0], 0.5)               _steps.KEPT(table.get)(x.shape[0], 0.5)

Each key that is there is compared with the size, which asks a question about it; with what data tell, in the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from numbers import Number
from types import MethodDescriptorType, WrapperDescriptorType
from typing import Any

import numpy as np
import torch
from torch import SymFloat, SymInt, Tensor

from fxport.exporter.capture.control_flow.choices import chosen_at
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.truth import NUMBERS, as_tensor, depends_on_data
from fxport.exporter.capture.failures import KEPT_BY_SIZE
from fxport.exporter.capture.guards.caught import require_uncaught
from fxport.exporter.capture.patches.numbers import number

SIZES = (SymInt, SymFloat)

MISSING = object()


def is_keyed(values: Any, key: Any, method: str) -> bool:
    """Return whether Python's own method would have to hash a symbolic number, or a tuple with one."""
    is_plain = isinstance(getattr(type(values), method, None), (MethodDescriptorType, WrapperDescriptorType))
    return is_plain and (is_sized(key) or is_of_data(key))


def is_sized(key: Any) -> bool:
    """Return whether a key is a symbolic number, or a tuple with one, and not one that data tell."""
    if isinstance(key, tuple):
        return any(map(is_sized, key)) and not any(map(is_of_data, key))
    return isinstance(key, SIZES) and not depends_on_data(key)


def is_of_data(key: Any) -> bool:
    """Return whether a key is a number that only data tell, or a tuple with one."""
    return any(map(is_of_data, key)) if isinstance(key, tuple) else isinstance(key, NUMBERS) and depends_on_data(key)


def found_at(keys: Iterable[Any], key: Any) -> Any:
    """Return the key that is equal to a symbolic one; MISSING where there is none.

    Each that may be equal to it is compared with it, which asks a question about its sizes.
    """
    return next((each for each in keys if _may_equal(each, key) and _is_equal(each, key)), MISSING)


def taken(values: Mapping[Any, Any], key: Any) -> Any:
    """Return `values[key]` of a dict.

    Raises:
        KeyError: It has no such key.
        LoopError: It would make an entry.
        RefusedError: Data tell the key, and the model would catch that there is none.
    """
    if is_of_data(key) and not hasattr(values, "__missing__"):
        require_uncaught(KeyError)
        if candidates := _candidates(values, key):
            return chosen_at([values[each] for each in candidates], _position(candidates, key))
        raise KeyError(key)
    found = MISSING if is_of_data(key) else found_at(values, key)
    if found is not MISSING:
        return values[found]
    raise LoopError(KEPT_BY_SIZE) if hasattr(values, "__missing__") else KeyError(key)  # as of a defaultdict


def got(values: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    """Return `values.get(key, default)` of a dict."""
    if is_of_data(key):
        candidates = _candidates(values, key)
        return chosen_at([*(values[each] for each in candidates), default], _position(candidates, key))
    found = found_at(values, key)
    return default if found is MISSING else values[found]


def holds(keys: Iterable[Any], key: Any) -> Any:
    """Return `key in keys`."""
    if not is_of_data(key):
        return found_at(keys, key) is not MISSING
    candidates = _candidates(keys, key)
    return bool(candidates) and (_position(candidates, key) < len(candidates)).item()


def _candidates(keys: Iterable[Any], key: Any) -> list[Any]:
    return [each for each in keys if _may_equal(each, key)]


def _position(keys: Sequence[Any], key: Any) -> Tensor:
    """Return which of the keys is equal to what only data tell, as a tensor of shape []; their count where none is."""
    if not keys:
        return torch.tensor(0)
    parts = key if isinstance(key, tuple) else (key,)
    columns = zip(*(each if isinstance(key, tuple) else (each,) for each in keys), strict=True)
    found = torch.stack([_equal_to(part, column) for part, column in zip(parts, columns, strict=True)]).all(0)
    return torch.where(found.any(), found.long().argmax(), len(keys))


def _equal_to(value: Any, column: Sequence[Any]) -> Tensor:
    """Return which of some numbers are equal to one, or of other values to such a value."""
    if isinstance(value, tuple):
        raise LoopError("it looks up a tuple of tuples with a number from data")
    if not isinstance(value, (int, float, *NUMBERS)):
        return torch.tensor([each == value for each in column])
    own = [number(each.item() if isinstance(each, np.generic) else each) for each in column]
    if any(type(each) not in (int, float) for each in own):
        raise LoopError("it looks up a number from data among keys that are neither whole numbers nor floats")
    dtype = torch.float64 if isinstance(value, (float, SymFloat)) or float in map(type, own) else torch.int64
    return torch.tensor(own, dtype=dtype) == as_tensor(number(value)).to(dtype)


def _may_equal(each: Any, key: Any) -> bool:
    """Return whether a key can be equal to another one, as far as their types tell."""
    if isinstance(key, tuple):
        return isinstance(each, tuple) and len(each) == len(key) and all(map(_may_equal, each, key))
    return isinstance(each, Number) if isinstance(key, NUMBERS) else each == key


def _is_equal(each: Any, key: Any) -> bool:
    if isinstance(key, tuple):
        return reduce(lambda so_far, pair: so_far and _is_equal(*pair), zip(each, key, strict=True), True)
    return bool(each == key)
