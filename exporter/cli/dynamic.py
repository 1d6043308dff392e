"""`--dynamic NAME:0=batch,1=seq` and `--dynamic auto` → the `dynamic_shapes` of export."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporter.cli.inputs import unknown_input
from exporter.cli.source import Source
from exporter.cli.usage import UsageError

INDEX = re.compile(r"-?\d+")
AUTO = "auto"

FORM = "write NAME:0=batch,1=seq (indices of dims, and their names), NAME:auto, or auto for all that can be dynamic"


def parse_dynamic(text: str) -> tuple[str, dict[int, str]]:
    """One `--dynamic` → the path of the input, and the name of each dynamic dim by its index; none for "auto"."""
    name, colon, pairs = text.rpartition(":")
    if not colon or not name or not pairs:
        raise UsageError(f"--dynamic '{text}' has no NAME:INDEX=DIM; {FORM}.")
    dims: dict[int, str] = {}
    if pairs == AUTO:
        return name, dims
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

    from exporter.capture.arguments.inputs import arguments_of, leaves_of
    from exporter.capture.sizes.shapes import ShapesError, axes_of

    if not texts:
        return source
    if isinstance(source.model, ExportedProgram):
        raise UsageError(f"'{source.name}' is already captured, its dims are decided; leave --dynamic out.")
    call = (source.args or (), source.kwargs)
    try:
        own = axes_of(source.model, *call, source.dynamic_shapes)
    except ShapesError as error:
        raise UsageError(f"'{source.name}': {error}.") from error
    values = {leaf.path: leaf.value for leaf in leaves_of(arguments_of(source.model, *call))}
    shapes = axes_of(source.model, *call, AUTO if AUTO in texts else None)
    for path, axes in own.items():
        shapes[path] = shapes.get(path, {}) | axes
    for text in texts:
        if text != AUTO:
            name, wanted = asked(text, values)
            shapes[name] = shapes.get(name, {}) | wanted
    return replace(source, dynamic_shapes=shapes)


def asked(text: str, values: Mapping[str, object]) -> tuple[str, dict[int | None, str]]:
    """One `--dynamic` for an input there is: its path, and the request for each dim that there is."""
    name, wanted = parse_dynamic(text)
    if name not in values:
        unknown_input(name, values)
    rank = rank_of(values[name], name, text)
    for index in wanted:
        if not -rank <= index < rank:
            raise UsageError(f"--dynamic '{text}': '{name}' has {rank} dims, so there is no dim {index}.")
    return name, {index % rank: dim for index, dim in wanted.items()} or dict.fromkeys(range(rank), AUTO)


def rank_of(value: object, name: str, text: str) -> int:
    from torch import Tensor

    if not isinstance(value, Tensor):
        raise UsageError(f"--dynamic '{text}': '{name}' is a {type(value).__name__}; only a tensor has dims.")
    return value.ndim
