"""`--dynamic NAME:0=batch,1=seq[2..64]` and `--dynamic auto` → the `dynamic_shapes` of export."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fxport.exporter.sources.inputs import example_of, parse_input, unknown_input
from fxport.exporter.sources.masks import takes
from fxport.exporter.sources.source import Source
from fxport.exporter.sources.usage import UsageError

if TYPE_CHECKING:
    from torch import nn

INDEX = re.compile(r"-?\d{1,18}")
DIM = re.compile(r"(?:(?P<times>[1-9]\d{0,8})\*)?(?P<name>\w+)(?:\[(?P<low>\d{0,18})\.\.(?P<high>\d{0,18})\])?")
AUTO = "auto"

FORM = (
    "write NAME:0=batch,1=seq (indices of dims, and their names), NAME:0=batch[1..64] for bounds, NAME:0=4*batch for "
    "multiples, NAME:auto, or auto for all that can be dynamic"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A dim as it was asked for.

    Attributes:
        name: Its name; with `times`, that of the number by which the size is a multiple.
        low: The smallest value of what has the name; None for any.
        high: The largest one, inclusive; None for any.
        times: The size is so many times what has the name.
    """

    name: str
    low: int | None = None
    high: int | None = None
    times: int = 1

    def request(self) -> Any:  # Any: as torch.export types its requests
        """Return the entry of `dynamic_shapes` for it."""
        if self.low is None and self.high is None and self.times == 1:
            return self.name
        from torch.export import Dim

        dim = Dim(self.name, min=self.low, max=self.high)
        return dim if self.times == 1 else self.times * dim


def require_readable(inputs: Sequence[str], dynamic: Sequence[str] = ()) -> None:
    """Refuse an `--input` or a `--dynamic` that cannot be read, before a model is loaded."""
    for text in inputs:
        parse_input(text)
    for text in dynamic:
        if text != AUTO:
            parse_dynamic(text)


def parse_dynamic(text: str) -> tuple[str, dict[int, Asked]]:
    """One `--dynamic` → the path of the input, and what is asked of each dim by its index; none for "auto"."""
    name, colon, pairs = text.rpartition(":")
    if not colon or not name or not pairs:
        raise UsageError(f"--dynamic '{text}' has no NAME:INDEX=DIM; {FORM}.")
    dims: dict[int, Asked] = {}
    if pairs == AUTO:
        return name, dims
    for pair in pairs.split(","):
        index, equals, dim = pair.partition("=")
        if not equals or not INDEX.fullmatch(index):
            raise UsageError(f"--dynamic '{text}': '{pair}' is no INDEX=DIM; {FORM}.")
        dims[int(index)] = parse_dim(dim, text)
    return name, dims


def parse_dim(dim: str, text: str) -> Asked:
    """`batch`, `batch[1..64]`, `batch[2..]`, `batch[..64]`, `4*batch`."""
    match = DIM.fullmatch(dim)
    if match is None or not match["name"].isidentifier():
        raise UsageError(f"--dynamic '{text}': '{dim}' is no name of a dim; {FORM}.")
    low, high = (int(match[each]) if match[each] else None for each in ("low", "high"))
    if high is not None and high < 1:
        raise UsageError(f"--dynamic '{text}': the upper bound {high} leaves no size; {FORM}.")
    if low is not None and high is not None and low >= high:
        raise UsageError(
            f"--dynamic '{text}': the upper bound {high} must be larger than the lower bound {low}; {FORM}."
        )
    return Asked(match["name"], low, high, int(match["times"] or 1))


def with_dynamic(source: Source, texts: Sequence[str]) -> Source:
    """The source with the dims of the command line over its own, checked against the example inputs.

    Dims that nobody asked for, which a folder of transformers brings, are replaced by those of the command line.
    """
    from torch.export import ExportedProgram

    from fxport.exporter.capture.arguments.inputs import arguments_of, leaves_of
    from fxport.exporter.capture.sizes.shapes import ShapesError, axes_of

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
    named = [asked(text, values, source.model) for text in texts if text != AUTO]
    for path, axes in own.items() if not (source.guessed and named) else ():
        shapes[path] = shapes.get(path, {}) | axes
    for name, wanted in named:
        shapes[name] = shapes.get(name, {}) | wanted
    shapes |= {mask: shapes[of] for mask, of in source.masks.items() if of in dict(named) and mask not in dict(named)}
    return replace(source, dynamic_shapes=shapes)


def asked(text: str, values: Mapping[str, object], model: nn.Module) -> tuple[str, dict[int | None, Any]]:
    """One `--dynamic` for an input there is: its path, and the request for each dim that there is."""
    name, wanted = parse_dynamic(text)
    if name not in values and takes(model, name):
        raise UsageError(
            f"--dynamic '{text}': '{name}' has no example value, so forward is called without it; give one too, e.g. "
            f"--input {example_of(name)}."
        )
    if name not in values:
        unknown_input(name, values)
    rank = rank_of(values[name], name, text)
    for index in wanted:
        if not -rank <= index < rank:
            raise UsageError(f"--dynamic '{text}': '{name}' has {rank} dims, so there is no dim {index}.")
    return name, {index % rank: dim.request() for index, dim in wanted.items()} or dict.fromkeys(range(rank), AUTO)


def rank_of(value: object, name: str, text: str) -> int:
    from torch import Tensor

    if not isinstance(value, Tensor):
        said = f"--dynamic '{text}': '{name}' is {value!r}, and only a tensor has dims"
        is_size = isinstance(value, int) and not isinstance(value, bool)
        vector = f"; write --input {name}={value}:float32 for a vector of {value}" if is_size else ""
        raise UsageError(f"{said}{vector}.")
    return value.ndim
