"""Methods of dicts and sets that take a symbolic number as a key, or change them under one.

cache[x.shape[0]] = mask                 _steps.put(mask, cache, x.shape[0]), which is refused
table.get(x.shape[0], 0.5)               a call of `of_keys(table, "get")`

Nothing is put in under a size: code that is not rewritten may ask for a number that is equal to it, and Python would
not compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.control_flow.sized_keys import MISSING, found_at, got, is_keyed, is_of_data
from fxport.exporter.capture.failures import KEPT_BY_SIZE


def put(value: Any, values: Any, key: Any) -> None:
    """Do `values[key] = value`, of which Python computes the value first.

    Raises:
        LoopError: It would be a new key of a dict, and is a symbolic number.
    """
    if isinstance(values, dict) and is_keyed(values, key, "__setitem__"):
        key = _known(values, key)
    values[key] = value


def _known(values: Iterable[Any], key: Any) -> Any:
    """Return the key that is equal to a symbolic one. Raises LoopError where there is none, or only data tell."""
    found = MISSING if is_of_data(key) else found_at(values, key)
    if found is MISSING:
        raise LoopError(KEPT_BY_SIZE)
    return found


def _setdefault(values: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return values[_known(values, key)]


def _add(values: set[Any], key: Any) -> None:
    _known(values, key)


METHODS: Mapping[type, Mapping[str, Callable[..., Any]]] = {
    dict: {"get": got, "setdefault": _setdefault},
    set: {"add": _add},
}
"""Methods that take a key, by their names."""


def of_keys(values: Any, name: str) -> Callable[..., Any] | None:
    """Return such a method of a dict or a set for keys of symbolic numbers as well; None where Python's own will do."""
    method = METHODS[dict if isinstance(values, dict) else set].get(name)
    if method is None:
        return None

    def made(key: Any, *rest: Any) -> Any:
        return method(values, key, *rest) if is_keyed(values, key, name) else getattr(values, name)(key, *rest)

    return made
