"""What sizes the user asked to be dynamic, in one form whatever form it came in, and what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import UserError
from torch.export import Dim
from torch.export.dynamic_shapes import _combine_args, _DimHint, _DimHintType, _tree_map_with_path
from torch.utils import _pytree as pytree


class ShapesError(ValueError):
    """A request for dynamic sizes that does not fit the model's inputs. The text says which, and what would fit."""


@dataclass(frozen=True, slots=True)
class Request:
    """One axis of one input that shall stay dynamic, by the path of the input ("x", "past.0.key")."""

    input: str
    axis: int
    name: str | None = None
    """The user's name for the dimension, if one was given."""
    size: int | None = None
    """The size in the example."""
    bounds: tuple[int, int | None] = (0, None)
    """Smallest and largest size that the user asked for (None: any)."""


@dataclass(frozen=True)
class Leaf:
    """One flattened input: where it stands in the call, and its example value."""

    path: str
    value: Any


def leaves_of(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Leaf]:
    """The flattened inputs in torch.export's order, under the names of forward's parameters."""
    combined = _combine_args(model, args, kwargs)
    leaves, _ = pytree.tree_flatten_with_path(dict(combined))
    return [Leaf(path_name(path), value) for path, value in leaves]


def path_name(path: Sequence[Any]) -> str:
    """`(MappingKey("past"), SequenceKey(0), GetAttrKey("key"))` as "past.0.key"."""
    parts = []
    for key in path:
        part = next((getattr(key, field) for field in ("key", "idx", "name") if hasattr(key, field)), key)
        parts.append(str(part))
    return ".".join(parts)


def requests_of(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> list[Request]:
    """Every axis that `dynamic_shapes` asks to be dynamic."""
    found: list[Request] = []
    if not dynamic_shapes:
        return found
    combined = dict(_combine_args(model, args, kwargs))

    def visit(path: Sequence[Any], value: Any, spec: Any) -> None:
        if isinstance(value, torch.Tensor):
            for axis, each in _axes(spec):
                if _is_dynamic(each):
                    found.append(_request(path_name(path), axis, each, value))
        elif spec is not None:
            raise ShapesError(f"dynamic_shapes asks for dimensions of '{path_name(path)}', which is no tensor")

    try:
        _tree_map_with_path(visit, combined, _as_mapping(combined, dynamic_shapes), tree_name="inputs")
    except UserError as error:  # the structures differ; PyTorch says where
        raise ShapesError(str(error).splitlines()[0]) from error
    return found


def _request(path: str, axis: Any, each: Any, value: torch.Tensor) -> Request:
    if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
        raise ShapesError(f"dynamic_shapes names dimension {axis!r} of '{path}', which has {value.dim()} dimensions")
    size, (low, high) = value.shape[axis], _bounds(each)
    if size < low or (high is not None and size > high):
        allowed = f"{low} to {high}" if high is not None else f"at least {low}"
        raise ShapesError(f"dimension {axis} of '{path}' is {size} in the example, but dynamic_shapes says {allowed}")
    return Request(path, axis % value.dim(), _name(each), size, (low, high))


def relaxed(dynamic_shapes: Any) -> Any:
    """The same request with every dimension left for PyTorch to decide, so that no single one can fail the capture.

    What it decided is compared with the request afterwards: one dimension that cannot stay dynamic is then one
    finding, and not the end of the run. Bounds that the user gave are kept.
    """
    if isinstance(dynamic_shapes, dict):
        return {key: relaxed(value) for key, value in dynamic_shapes.items()}
    if isinstance(dynamic_shapes, (list, tuple)):
        return type(dynamic_shapes)(relaxed(value) for value in dynamic_shapes)
    if isinstance(dynamic_shapes, str):
        return Dim.AUTO
    if isinstance(dynamic_shapes, Dim):
        return _auto(getattr(dynamic_shapes, "min", None), getattr(dynamic_shapes, "max", None))
    if isinstance(dynamic_shapes, _DimHint) and dynamic_shapes.type is _DimHintType.DYNAMIC:
        return _auto(dynamic_shapes.min, dynamic_shapes.max)
    return dynamic_shapes


def resolved(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any) -> Any:
    """`dynamic_shapes` as nested containers, also where it is a ShapesCollection or AdditionalInputs."""
    if hasattr(dynamic_shapes, "dynamic_shapes"):
        return dynamic_shapes.dynamic_shapes(model, args, kwargs)
    if dynamic_shapes is None:
        return None
    return _as_mapping(dict(_combine_args(model, args, kwargs)), dynamic_shapes)


def from_dynamic_axes(
    leaves: Sequence[Leaf],
    names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]],
    outputs: Sequence[str] = (),
) -> dict[str, Mapping[int, Any]]:
    """torch.onnx's `dynamic_axes` by the path of the input, each axis with its name.

    Keys are names of inputs: `input_names` where given, else forward's parameters. Keys that name outputs are left
    out, since the sizes of outputs follow from those of the inputs. Raises ShapesError for any other key.
    """
    tensors = [leaf for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    paths = dict(zip(names or (), (leaf.path for leaf in tensors), strict=False)) | {
        leaf.path: leaf.path for leaf in leaves
    }
    wanted: dict[str, Mapping[int, Any]] = {}
    for key, axes in dynamic_axes.items():
        if key in paths:
            wanted[paths[key]] = axes if isinstance(axes, Mapping) else dict.fromkeys(axes, Dim.AUTO)
        elif key not in outputs:
            raise ShapesError(
                f"dynamic_axes names '{key}', which is no input; the inputs are: {', '.join(sorted(paths))}"
            )
    return wanted


def as_dynamic_shapes(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], axes: Mapping[str, Mapping[int, Any]]
) -> dict[str, Any]:
    """Axes by input path in the nested form that torch.export takes."""
    combined = dict(_combine_args(model, args, kwargs))
    return _tree_map_with_path(
        lambda path, value: dict(axes.get(path_name(path), {})) if isinstance(value, torch.Tensor) else None, combined
    )


def _as_mapping(combined: dict[str, Any], dynamic_shapes: Any) -> dict[str, Any]:
    """Positional requests by parameter name; parameters that are not mentioned are static."""
    if not isinstance(dynamic_shapes, (Mapping, list, tuple)):
        raise ShapesError(f"dynamic_shapes is {dynamic_shapes!r}, not a mapping or a sequence of requests")
    if isinstance(dynamic_shapes, (list, tuple)):
        if len(dynamic_shapes) > len(combined):
            raise ShapesError(f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(combined)} inputs")
        dynamic_shapes = dict(zip(combined, dynamic_shapes, strict=False))
    unknown = [name for name in dynamic_shapes if name not in combined]
    if unknown:
        raise ShapesError(
            f"dynamic_shapes names '{unknown[0]}', which is no input; the inputs are: {', '.join(combined)}"
        )
    return {name: _filled(value, dynamic_shapes.get(name)) for name, value in combined.items()}


def _filled(value: Any, spec: Any) -> Any:
    """A request for a nested input with None wherever it says nothing, which is what torch.export wants to read."""
    if spec is None:
        return pytree.tree_map(lambda _: None, value)
    if isinstance(value, dict) and isinstance(spec, dict):
        return {key: _filled(each, spec.get(key)) for key, each in value.items()}
    return spec


def _axes(spec: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(spec, Mapping):
        yield from spec.items()
    elif isinstance(spec, (list, tuple)):
        yield from enumerate(spec)
    elif spec is not None:
        raise ShapesError(f"dynamic_shapes holds {spec!r} where a mapping of dimensions belongs")


def _is_dynamic(each: Any) -> bool:
    if isinstance(each, _DimHint):
        return each.type is _DimHintType.DYNAMIC
    return isinstance(each, (str, Dim)) and not isinstance(each, int)


def _name(each: Any) -> str | None:
    if isinstance(each, str):
        return each
    return each.__name__ if isinstance(each, Dim) else None


def _bounds(each: Any) -> tuple[int, int | None]:
    low, high = getattr(each, "min", None), getattr(each, "max", None)
    return low if isinstance(low, int) else 0, high if isinstance(high, int) else None


def _auto(low: int | None, high: Any) -> Any:
    high = high if isinstance(high, int) else None
    low = low if isinstance(low, int) and low > 0 else None
    return Dim.AUTO if low is None and high is None else Dim.AUTO(min=low, max=high)
