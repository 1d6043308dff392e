"""What a model keeps in attributes: the same objects after a capture, and in its lists, dicts and sets what they held.

Tensors among them that are no buffers are written to for good, in a capture too: they get their values back.

PyTorch puts copies of the containers in their place, though somebody else may hold the list as well. What `forward` has
appended or assigned is a tensor of the capture, and stays there where the capture fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

INHERITED = frozenset(vars(torch.nn.Module()))
LAYERS = "_modules"
"""The attribute that is given back elsewhere."""

KINDS = (list, dict, set, tuple)

Held = dict[int, tuple[Any, list[Any]]]
"""Containers by their identity, each with what it holds: the values, or the pairs of a dict."""


@contextmanager
def attributes_given_back(model: torch.nn.Module) -> Iterator[None]:
    """Puts back every attribute of the model's modules, and into each container what it held."""
    modules = [each for each in model.modules() if not isinstance(each, torch.jit.ScriptModule)]
    before = [(vars(module), _attributes(module)) for module in modules]
    held: Held = {}
    for _, attributes in before:
        _hold(attributes, held)
    try:
        yield
    finally:
        for container, values in held.values():
            if not _same(container, values):
                _refill(container, values)
        for own, attributes in before:
            for name in [name for name in own if name not in attributes and name != LAYERS]:
                del own[name]
            own.update((name, value) for name, value in attributes.items() if own.get(name) is not value)


@contextmanager
def values_given_back(model: torch.nn.Module) -> Iterator[None]:
    """Puts back the values of tensors in attributes, also in containers, that are neither buffers nor parameters."""
    held: Held = {}
    own = [value for module in model.modules() for name, value in vars(module).items() if name not in INHERITED]
    _hold(own, held)
    kept = [each for container, _ in held.values() for each in _values(container)]
    tensors = {id(each): each for each in kept if type(each) is torch.Tensor and each.layout is torch.strided}
    writable = [each for each in tensors.values() if not each.is_inference()]
    before = [(each, each._version, each.detach().clone()) for each in writable]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, version, value in before:
                if tensor._version != version:
                    tensor.resize_(value.shape).copy_(value)


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name != LAYERS}


def _hold(value: Any, held: Held) -> None:
    if not isinstance(value, KINDS) or id(value) in held:
        return
    held[id(value)] = value, list(value.items()) if isinstance(value, dict) else list(value)
    for each in _values(value):
        _hold(each, held)


def _values(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _same(container: Any, before: list[Any]) -> bool:
    now = list(container.items()) if isinstance(container, dict) else list(container)
    if len(now) != len(before):
        return False
    pairs = zip(now, before, strict=True)
    if isinstance(container, dict):
        return all(key is old_key and value is old for (key, value), (old_key, old) in pairs)
    return all(value is old for value, old in pairs)


def _refill(container: Any, before: list[Any]) -> None:
    if isinstance(container, list):
        container[:] = before
    else:
        container.clear()
        container.update(before)
