"""Paths of values within arguments: `batch.ids` is the value of the key "ids" of the argument `batch`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from fxport.exporter.sources.usage import UsageError


class _Level(dict[str, Any]):
    """Values of one level by their keys; a value may be a level."""


def nested(named: Mapping[str, object], signature: inspect.Signature, own: Mapping[str, object]) -> dict[str, object]:
    """Values by paths as values by arguments: dicts by key, and lists where all keys of a level are indices.

    A dict of `own`, the example that there is, keeps its other keys. Raises UsageError for a path that is given beside
    its beginning, and for indices with gaps.
    """
    values: dict[str, object] = {}
    parts = dict[str, _Level]()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    for name, value in named.items():
        head, _, rest = name.partition(".")
        if not rest or not (takes_any or head in signature.parameters):
            values[name] = value
        else:
            _put(parts.setdefault(head, _Level()), rest.split("."), value, name)
    if twice := [head for head in parts if head in values]:
        raise UsageError(f"'{twice[0]}' is given as a whole and in parts; give one of them.")
    return values | {head: _over(own.get(head), _lists(inner, head)) for head, inner in parts.items()}


def _over(own: object, given: object) -> object:
    """Return what is given; a dict has the other keys of one that stands in its place, too."""
    if not isinstance(own, dict) or not isinstance(given, dict):
        return given
    return own | {key: _over(own.get(key), value) for key, value in given.items()}


def _put(inner: _Level, path: list[str], value: object, name: str) -> None:
    *outer, last = path
    for key in outer:
        inner = inner.setdefault(key, _Level())
        if not isinstance(inner, _Level):
            raise UsageError(f"'{name}' is within a value that is given, too; give one of them.")
    if last in inner:
        raise UsageError(f"'{name}' is given as a whole and in parts; give one of them.")
    inner[last] = value


def _lists(value: object, path: str) -> object:
    if not isinstance(value, _Level):
        return value
    made = {key: _lists(each, f"{path}.{key}") for key, each in value.items()}
    if not all(key.isdecimal() for key in made):
        return made
    order = sorted(made, key=int)
    if [int(key) for key in order] != list(range(len(order))):
        raise UsageError(f"'{path}' has the parts {', '.join(order)}; give one for each index from 0 on.")
    return [made[key] for key in order]
