"""`--dynamic NAME:0=batch,1=seq` → the `dynamic_shapes` of torch.export."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from exporter.cli.inputs import unknown_input
from exporter.cli.source import Source
from exporter.cli.usage import UsageError

if TYPE_CHECKING:
    from torch import nn

INDEX = re.compile(r"-?\d+")

FORM = "write NAME:0=batch,1=seq: indices of dims, and their names"


def parse_dynamic(text: str) -> tuple[str, dict[int, str]]:
    """One `--dynamic` → the input's name, and the name of each dynamic dim by its index."""
    name, colon, pairs = text.partition(":")
    if not colon or not name or not pairs:
        raise UsageError(f"--dynamic '{text}' has no NAME:INDEX=DIM; {FORM}.")
    dims: dict[int, str] = {}
    for pair in pairs.split(","):
        index, equals, dim = pair.partition("=")
        if not equals or not INDEX.fullmatch(index):
            raise UsageError(f"--dynamic '{text}': '{pair}' is no INDEX=DIM; {FORM}.")
        if not dim.isidentifier():
            raise UsageError(f"--dynamic '{text}': '{dim}' is no name of a dim; {FORM}.")
        dims[int(index)] = dim
    return name, dims


def with_dynamic(source: Source, texts: Sequence[str]) -> Source:
    """The source with the dims of the command line over its own, checked against the example inputs."""
    from torch.export import ExportedProgram

    if not texts:
        return source
    if isinstance(source.model, ExportedProgram):
        raise UsageError(f"'{source.name}' is already captured, its dims are decided; leave --dynamic out.")
    bound = flat_arguments(source.model, source)
    shapes = own_shapes(source, bound)
    for text in texts:
        name, wanted = parse_dynamic(text)
        if name not in bound:
            unknown_input(name, bound)
        rank = rank_of(bound[name], name, text)
        asked = dict(shapes[name]) if isinstance(shapes[name], Mapping) else {}
        for index in wanted:
            if not -rank <= index < rank:
                raise UsageError(f"--dynamic '{text}': '{name}' has {rank} dims, so there is no dim {index}.")
        shapes[name] = asked | {index % rank: dim for index, dim in wanted.items()}
    return replace(source, dynamic_shapes=shapes)


def flat_arguments(model: nn.Module, source: Source) -> dict[str, object]:
    """The example inputs by the names of forward's arguments, those of a `**kwargs` by their own names."""
    signature = inspect.signature(model.forward)
    bound = dict(signature.bind(*(source.args or ()), **source.kwargs).arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and parameter.name in bound:
            bound |= bound.pop(parameter.name)
    return bound


def own_shapes(source: Source, bound: Mapping[str, object]) -> dict[str, Any]:
    """The source's own specification by argument name; None, that is all static, where it says nothing."""
    own = source.dynamic_shapes
    if isinstance(own, tuple | list):
        own = dict(zip(bound, own, strict=False))
    return {name: (own or {}).get(name) for name in bound}


def rank_of(value: object, name: str, text: str) -> int:
    from torch import Tensor

    if not isinstance(value, Tensor):
        raise UsageError(f"--dynamic '{text}': '{name}' is a {type(value).__name__}; only a tensor has dims.")
    return value.ndim
