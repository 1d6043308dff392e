"""Requests for dynamic sizes: every form in which they can be made as one form, axes by the path of the input."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import Dim
from torch.export.dynamic_shapes import _DerivedDim, _DimHint, _DimHintType, _tree_map_with_path

from fxport.diagnostics.errors import FxportError
from fxport.exporter.capture.arguments.inputs import Leaf, arguments_of, children, key_name, leaves_of

AUTO = "auto"
"""In the place of a request: whatever can be dynamic, is."""

Axes = dict[str, dict[int | None, Any]]
"""Path of an input → axis → what was asked for it: a name, a Dim, a hint. The axis of a number is None."""


class ShapesError(FxportError, ValueError):
    """A request for dynamic sizes that does not fit the model's inputs. The text says which, and what would fit."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A dimension that was asked for as `factor * root + offset`, such as `2 * Dim("n")`."""

    root: str
    factor: int
    offset: int
    size: int
    """Size of the root in the example."""
    bounds: tuple[int, int | None]
    """Bounds of the root."""


@dataclass(frozen=True, slots=True)
class Request:
    """One axis of one input that shall stay dynamic, by the path of the input ("x", "past.0.key")."""

    input: str
    axis: int | None
    """None: the input is itself a number."""
    source: str
    """PyTorch's name of the size, as the guards have it: "L['x'].size()[0]"."""
    name: str | None = None
    """The user's name for the dimension, if one was given."""
    size: int | None = None
    """The size in the example."""
    bounds: tuple[int, int | None] = (0, None)
    """Smallest and largest size that the user asked for (None: any)."""
    required: bool = True
    """False: it shall be dynamic only if it can be."""
    derived: Derived | None = None
    """From what it was derived, if it was."""
    from_zero: bool = False
    """True: the user asked for the size 0 as well; a named Dim does not tell, of which that is the default."""

    @property
    def label(self) -> str:
        """Return what to call the dimension in a message."""
        return self.name or (self.input if self.axis is None else f"{self.input}.{self.axis}")


def axes_of(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: Any, names: Sequence[str] | None = None
) -> Axes:
    """Return every axis that was asked for, in whatever form: what it was asked to be, by the path of its input.

    `wanted` is what torch.export takes as `dynamic_shapes` (nested containers by name or position, a ShapesCollection,
    AdditionalInputs), with strings as names of dimensions, paths as keys ("past.0.key"), `names` for the inputs in
    order, and "auto" for all axes of an input, or of all of them. Raises ShapesError for what fits no input.
    """
    if hasattr(wanted, "dynamic_shapes"):
        wanted = wanted.dynamic_shapes(model, args, dict(kwargs))
    arguments = arguments_of(model, args, kwargs)
    found: Axes = {}
    if wanted is None:
        return found
    leaves = leaves_of(arguments)
    if wanted == AUTO:
        return {
            leaf.path: _axes(leaf.path, leaf.value, AUTO) for leaf in leaves if isinstance(leaf.value, torch.Tensor)
        }
    if isinstance(wanted, Mapping):
        wanted = _by_path(wanted, leaves, names)
    elif isinstance(wanted, (list, tuple)):
        wanted = _by_position(model, arguments, wanted)
    else:
        raise ShapesError(f"dynamic_shapes is {wanted!r}, not a mapping or a sequence of requests")
    _visit("", arguments, wanted, found)
    return found


def _by_path(wanted: Mapping[Any, Any], leaves: Sequence[Leaf], names: Sequence[str] | None) -> dict[Any, Any]:
    """Return the request with the user's own names of inputs replaced by their paths."""
    fed = [leaf.path for leaf in leaves if isinstance(leaf.value, torch.Tensor)]
    own = {name: path for name, path in zip(names or (), fed, strict=False) if name not in fed}
    return {own.get(key, key): spec for key, spec in wanted.items()}


def _by_position(model: Any, arguments: Mapping[str, Any], wanted: Sequence[Any]) -> dict[Any, Any]:
    """Return requests in order of forward's parameters; those of `*args` may also stand one by one."""
    parameters = inspect.signature(getattr(model, "forward", model)).parameters.values()
    spread = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), None)
    given = len(wanted)
    if spread is not None and spread in arguments:
        first = list(arguments).index(spread)
        end = first + len(arguments[spread])
        if given > len(arguments) or (end == first + 1 <= given and _of_one_tensor(wanted[first])):
            wanted = [*wanted[:first], tuple(wanted[first:end]), *wanted[end:]]
    if len(wanted) > len(arguments):
        raise ShapesError(f"dynamic_shapes has {given} entries for {len(arguments)} inputs")
    return dict(zip(arguments, wanted, strict=False))


def _of_one_tensor(spec: Any) -> bool:
    """Return whether this is a mapping of dimensions, {0: "batch"}, not one of inputs."""
    return isinstance(spec, Mapping) and not any(isinstance(each, (Mapping, list, tuple)) for each in spec.values())


def _visit(path: str, value: Any, spec: Any, found: Axes) -> None:
    inner = list(value.items()) if path == "" else children(value)
    if spec is None:
        return
    if inner is None:
        found.setdefault(path, {}).update(_axes(path, value, spec))
        return
    values = {key_name(key): child for key, child in inner}
    for key, each in _matched(path, value, spec, list(values)):
        head, rest = _split(str(key), values)
        if head is None:
            whole = f" of '{path}'; it holds" if path else "; the inputs are"
            raise ShapesError(f"dynamic_shapes names '{key}', which is no input{whole}: {', '.join(values)}")
        _visit(f"{path}.{head}" if path else head, values[head], {rest: each} if rest else each, found)


def _split(key: str, values: Mapping[str, Any]) -> tuple[str | None, str]:
    """Split a key that may be a path: which of the values it begins with, and the path within that."""
    if key in values:
        return key, ""
    head = next((name for name in values if key.startswith(f"{name}.")), None)
    return head, key[len(head) + 1 :] if head else ""


def _matched(path: str, value: Any, spec: Any, names: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Return (key, request) for what a container holds."""
    if spec == AUTO:
        yield from ((name, AUTO) for name in names)
    elif isinstance(spec, Mapping):
        yield from spec.items()
    elif type(spec) is type(value) and not isinstance(spec, (list, tuple)):  # the same class around requests
        yield from ((key_name(key), each) for key, each in children(spec) or ())
    elif isinstance(spec, (list, tuple)):
        if len(spec) != len(names):
            raise ShapesError(f"dynamic_shapes has {len(spec)} entries for the {len(names)} values of '{path}'")
        yield from zip(names, spec, strict=True)
    else:
        raise ShapesError(f"dynamic_shapes holds {spec!r} for '{path}', where a mapping or a sequence belongs")


def _axes(path: str, value: Any, spec: Any) -> dict[int | None, Any]:
    """Return the request for one input by axis."""
    if isinstance(value, int) and not isinstance(value, bool):
        spec = spec.get(None) if isinstance(spec, Mapping) else spec
        return {None: spec} if _may_change(spec) else {}
    if not isinstance(value, torch.Tensor):
        kind = type(value).__name__
        advice = "; give it as a tensor, and it is an input" if isinstance(value, (bool, float)) else ""
        raise ShapesError(f"dynamic_shapes asks for dimensions of '{path}', which is a {kind} and no tensor{advice}")
    if spec == AUTO:
        return dict.fromkeys(range(value.dim()), AUTO)
    if not isinstance(spec, (Mapping, list, tuple)):
        raise ShapesError(
            f"dynamic_shapes holds {spec!r} for '{path}', where a mapping of dimensions belongs, such as {{0: 'batch'}}"
        )
    found: dict[int | None, Any] = {}
    for axis, each in spec.items() if isinstance(spec, Mapping) else enumerate(spec):
        if not isinstance(axis, int):
            raise ShapesError(
                f"dynamic_shapes has the key {axis!r} for '{path}'; keys are the numbers of dimensions: {{0: 'batch'}}"
            )
        if not -value.dim() <= axis < value.dim():
            raise ShapesError(f"dynamic_shapes names dimension {axis} of '{path}', which has {value.dim()} dimensions")
        if isinstance(each, int) and each != value.shape[axis]:
            raise ShapesError(f"dimension {axis} of '{path}' is {value.shape[axis]}, but dynamic_shapes says {each}")
        if _may_change(each):
            found[axis % value.dim()] = each
    return found


def _may_change(each: Any) -> bool:
    if isinstance(each, _DimHint):
        return each.type is not _DimHintType.STATIC
    return isinstance(each, (str, Dim)) and not isinstance(each, int)


def requests_of(arguments: Mapping[str, Any], axes: Axes) -> list[Request]:
    """Return the axes as requests, checked against the sizes in the example."""
    values = {leaf.path: leaf for leaf in leaves_of(arguments)}
    found = [_request(values[path], axis, each) for path, wanted in axes.items() for axis, each in wanted.items()]
    first: dict[str, tuple[int | None, str]] = {}
    for request in found:
        name, size = (request.derived.root, request.derived.size) if request.derived else (request.name, request.size)
        other, input_ = first.setdefault(name, (size, request.input)) if name else (size, request.input)
        if other != size:
            raise ShapesError(
                f"'{name}' is {other} in '{input_}' and {size} in '{request.input}'; "
                "dimensions of one name have one size"
            )
    return found


def _request(leaf: Leaf, axis: int | None, each: Any) -> Request:
    source = leaf.source if axis is None else f"{leaf.source}.size()[{axis}]"
    size = leaf.value if axis is None else leaf.value.shape[axis]
    low, high = _bounds(each)
    hint = isinstance(each, _DimHint) and each.type is _DimHintType.AUTO
    if not hint and (size < low or (high is not None and size > high)):
        allowed = f"{low} to {high}" if high is not None else f"at least {low}"
        raise ShapesError(
            f"dimension {axis} of '{leaf.path}' is {size} in the example, but dynamic_shapes says {allowed}"
        )
    return Request(
        leaf.path,
        axis,
        source,
        _name(each),
        size,
        (low, high),
        not hint and each != AUTO,
        _derived(each, leaf, axis, size),
        isinstance(each, _DimHint) and each.min == 0,
    )


def _derived(each: Any, leaf: Leaf, axis: int | None, size: int) -> Derived | None:
    """Return what a derived Dim of torch.export says, which is increasing and linear in its root."""
    if not isinstance(each, _DerivedDim):
        return None
    offset = int(each.fn(sympy.Integer(0)))
    factor = int(each.fn(sympy.Integer(1))) - offset
    found, rest = divmod(size - offset, factor)
    if rest or found < 0:
        raise ShapesError(f"dimension {axis} of '{leaf.path}' is {size} in the example, which is not '{_name(each)}'")
    return Derived(each.root.__name__, factor, offset, found, _bounds(each.root))  # type: ignore[attr-defined]


def relaxed(arguments: Mapping[str, Any], requests: Sequence[Request]) -> Any:
    """Return the request as torch.export takes it, with every dimension left for PyTorch to decide.

    So no single one can fail the capture. What PyTorch decided is compared with the request afterwards: a dimension
    that cannot stay dynamic is then one finding, and not the end of the run. Bounds that the user gave are kept.
    """
    if not requests:
        return None
    decided: dict[str, dict[int | None, Any]] = {}
    for request in requests:
        decided.setdefault(request.input, {})[request.axis] = _auto(*request.bounds)
    leaves = iter(leaves_of(arguments))  # PyTorch's function meets the leaves in the same order

    def spec(_: Any, value: Any) -> Any:
        wanted = decided.get(next(leaves).path, {})
        return wanted.get(None, wanted or None)

    return _tree_map_with_path(spec, dict(arguments))


def from_dynamic_axes(
    leaves: Sequence[Leaf],
    names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]],
    outputs: Sequence[str] = (),
) -> dict[str, Mapping[int, Any]]:
    """Return torch.onnx's `dynamic_axes` as requests by name or path of the input, each axis with its name.

    Keys are names of inputs: `names` where given, else forward's parameters. Keys that name outputs are left out,
    since the sizes of outputs follow from those of the inputs. Raises ShapesError for any other key.
    """
    known = {*(names or ()), *(leaf.path for leaf in leaves)}
    wanted: dict[str, Mapping[int, Any]] = {}
    for key, axes in dynamic_axes.items():
        if key in known:
            wanted[key] = axes if isinstance(axes, Mapping) else dict.fromkeys(axes, Dim.AUTO)
        elif key not in outputs:
            raise ShapesError(
                f"dynamic_axes names '{key}', which is no input; the inputs are: {', '.join(sorted(known))}"
            )
    return wanted


def _name(each: Any) -> str | None:
    if isinstance(each, str):
        return None if each == AUTO else each
    return each.__name__ if isinstance(each, Dim) else None


def _bounds(each: Any) -> tuple[int, int | None]:
    if isinstance(each, _DerivedDim):  # PyTorch's own property refuses an offset below 0
        low, high = _bounds(each.root)  # type: ignore[attr-defined]  # torch leaves it untyped
        most = None if high is None else int(each.fn(sympy.Integer(high)))
        return max(int(each.fn(sympy.Integer(low))), 0), most
    low, high = getattr(each, "min", None), getattr(each, "max", None)
    return int(low) if isinstance(low, int) else 0, int(high) if isinstance(high, int) else None


def _auto(low: int, high: int | None) -> Any:
    return Dim.AUTO if low <= 0 and high is None else Dim.AUTO(min=low or None, max=high)
