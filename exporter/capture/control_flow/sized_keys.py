"""Dicts and sets that are asked for a dynamic size, or for a tuple with one: Python would look it up by its hash.

table[x.shape[0]]                        _steps.element(table, x.shape[0])
x.shape[0] in {1, 2, 4}                  _steps.among(x.shape[0], {1, 2, 4})
cache[x.shape[0]] = mask                 _steps.put(mask, cache, x.shape[0]), which is refused

Each key that is there is compared with the size, which asks a question about the size. Nothing is put in under a size:
code that is not rewritten may ask for a number that is equal to it, and Python would not compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from torch import SymFloat, SymInt

from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.truth import depends_on_data
from fxport.exporter.capture.failures import KEPT_BY_SIZE

SIZES = (SymInt, SymFloat)

MISSING = object()


def is_sized(key: Any) -> bool:
    """Return whether a key is a symbolic number, or a tuple with one, and not one that data tell."""
    if isinstance(key, tuple):
        return any(map(is_sized, key)) and not any(depends_on_data(each) for each in key)
    return isinstance(key, SIZES) and not depends_on_data(key)


def found_at(keys: Iterable[Any], key: Any) -> Any:
    """Return the key that is equal to a symbolic one; MISSING where there is none.

    Each that may be equal to it is compared with it, which asks a question about its sizes.
    """
    return next((each for each in keys if _may_equal(each, key) and _is_equal(each, key)), MISSING)


def put(value: Any, values: Any, key: Any) -> None:
    """Do `values[key] = value`, of which Python computes the value first.

    Raises:
        LoopError: It would be a new key of a dict, and is a symbolic number.
    """
    if isinstance(values, dict) and is_sized(key):
        key = _known(values, key)
    values[key] = value


def taken(values: Mapping[Any, Any], key: Any) -> Any:
    """Return `values[key]` of a dict. Raises KeyError where it has no such key, and LoopError where it makes one."""
    found = found_at(values, key)
    if found is not MISSING:
        return values[found]
    raise LoopError(KEPT_BY_SIZE) if hasattr(values, "__missing__") else KeyError(key)  # as of a defaultdict


def _known(values: Iterable[Any], key: Any) -> Any:
    """Return the key that is equal to a symbolic one. Raises LoopError where there is none."""
    found = found_at(values, key)
    if found is MISSING:
        raise LoopError(KEPT_BY_SIZE)
    return found


def _get(values: dict[Any, Any], key: Any, default: Any = None) -> Any:
    found = found_at(values, key)
    return default if found is MISSING else values[found]


def _setdefault(values: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return values[_known(values, key)]


def _add(values: set[Any], key: Any) -> None:
    _known(values, key)


METHODS: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    dict: {"get": _get, "setdefault": _setdefault},
    set: {"add": _add},
}
"""Methods that take a key, by their names."""


def of_keys(values: Any, name: str) -> Callable[..., Any] | None:
    """Return such a method of a dict or a set for keys of symbolic numbers as well; None where Python's own will do."""
    method = METHODS[dict if isinstance(values, dict) else set].get(name)
    if method is None:
        return None

    def made(key: Any, *rest: Any) -> Any:
        return method(values, key, *rest) if is_sized(key) else getattr(values, name)(key, *rest)

    return made


def _may_equal(each: Any, key: Any) -> bool:
    """Return whether a key can be equal to another one, as far as their types tell."""
    if isinstance(key, tuple):
        return isinstance(each, tuple) and len(each) == len(key) and all(map(_may_equal, each, key))
    return isinstance(each, (int, float)) if isinstance(key, SIZES) else each == key


def _is_equal(each: Any, key: Any) -> bool:
    if isinstance(key, tuple):
        return reduce(lambda so_far, pair: so_far and _is_equal(*pair), zip(each, key, strict=True), True)
    return bool(each == key)
