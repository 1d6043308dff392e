"""Values that a call feeds, each with its path among the arguments and PyTorch's own name of its source."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any

import torch
from torch.export.dynamic_shapes import _combine_args
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.padded import as_padded
from fxport.exporter.capture.arguments.structures import register_dataclasses


@dataclass(frozen=True)
class Leaf:
    """One flattened input: where it stands in the call ("past.0.key"), its value, and PyTorch's name of it."""

    path: str
    value: Any
    source: str
    """As the sources of guards have it: "L['past'][0].key"."""


Child = tuple[Any, Any]
"""A key of `torch.utils._pytree`, or an index where a container is declared without keys, and what stands there."""


def arguments_of(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call under the names of forward's parameters, in their order.

    What `**kwargs` collects stands under its own names; dataclasses become containers, packed
    sequences `Padded`. Raises TypeError for a call
    that does not fit.
    """
    register_dataclasses((args, dict(kwargs)))
    args, kwargs = as_padded((args, dict(kwargs)))
    require_known(model, kwargs)
    found = dict(_combine_args(model, args, dict(kwargs)))
    for parameter in inspect.signature(getattr(model, "forward", model)).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            found |= found.pop(parameter.name, {})
    return found


def require_known(model: Any, kwargs: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that forward does not have, naming the nearest that it has."""
    parameters = inspect.signature(getattr(model, "forward", model)).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for name in kwargs:
        if name not in parameters:
            near = difflib.get_close_matches(name, parameters, n=1)
            known = f"did you mean '{near[0]}'?" if near else f"its arguments are {', '.join(parameters)}"
            raise TypeError(f"forward got an unexpected keyword argument '{name}'; {known}")


def leaves_of(arguments: Mapping[str, Any]) -> list[Leaf]:
    """Return the flattened arguments in torch.export's order, each with a path of its own."""
    leaves = [leaf for name, value in arguments.items() for leaf in _leaves(value, name, f"L[{name!r}]")]
    paths = different(leaf.path for leaf in leaves)
    return [replace(leaf, path=path) for leaf, path in zip(leaves, paths, strict=True)]


def different(names: Iterable[str], taken: Iterable[str] = ()) -> Iterator[str]:
    """Yield the names; one that is taken, as by the path of another value, gets a number: "a.b_1"."""
    used = set(taken)
    for name in names:
        free = next(each for each in chain((name,), (f"{name}_{i}" for i in count(1))) if each not in used)
        used.add(free)
        yield free


def form_of(value: Any) -> str | None:
    """Return how a tensor is stored, if not densely: "torch.sparse_csr" or "torch.nested"; None for all else."""
    if not isinstance(value, torch.Tensor):
        return None
    if value.is_nested:
        return "torch.nested"
    return None if value.layout is torch.strided else str(value.layout)


def _leaves(value: Any, path: str, source: str) -> Iterator[Leaf]:
    inner = children(value)
    if inner is None:
        yield Leaf(path, value, source)
        return
    for key, child in inner:
        yield from _leaves(child, f"{path}.{key_name(key)}", source + _access(key))


def children(value: Any) -> list[Child] | None:
    """Return what a container holds, in the order in which PyTorch flattens it; None for anything else."""
    kind = pytree.SUPPORTED_NODES.get(pytree._get_node_type(value))
    if kind is None:
        return None
    if kind.flatten_with_keys_fn is not None:
        try:
            return list(kind.flatten_with_keys_fn(value)[0])
        except ValueError:  # declared without keys, which PyTorch knows only when it is asked for them
            pass
    return list(enumerate(kind.flatten_fn(value)[0]))


def key_name(key: Any) -> str:
    """Return a key of `torch.utils._pytree` as a part of a path."""
    return str(next((getattr(key, field) for field in ("key", "idx", "name") if hasattr(key, field)), key))


def path_name(path: tuple[Any, ...]) -> str:
    """Return `(MappingKey("past"), SequenceKey(0), GetAttrKey("key"))` as "past.0.key".

    A lone surrogate, which no file holds in UTF-8, is written as "\\ud800".
    """
    return ".".join(map(key_name, path)).encode("utf-8", "backslashreplace").decode("utf-8")


def _access(key: Any) -> str:
    match key:
        case pytree.GetAttrKey():
            return f".{key.name}"
        case pytree.MappingKey():
            return f"[{key.key!r}]"
        case pytree.SequenceKey():
            return f"[{key.idx}]"
    return f"[{key}]"


def has_one_twice(call: tuple[Any, Any]) -> bool:
    """Return whether a call passes one tensor at two places, of which the model may ask."""
    tensors = [id(each) for each in pytree.tree_leaves(call) if isinstance(each, torch.Tensor)]
    return len(set(tensors)) < len(tensors)


def distinct(call: tuple[Any, Any], module: torch.nn.Module) -> tuple[Any, Any]:
    """Return the call with a copy for every tensor that is passed twice, or is one of the module's own.

    PyTorch would take the two for one input, and the weight for what is fed. One with a history of gradients is copied
    without it: PyTorch warns of those.
    """
    seen = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen or not tensor.is_leaf:
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)
        seen.add(id(tensor))
        return tensor

    return pytree.tree_map_only(torch.Tensor, once, call)
