"""Arguments of `export`: a call as torch.export takes it, or a TypeError that says what to give."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from fxport.diagnostics import Log
from fxport.diagnostics.errors import FxportError
from fxport.exporter.pipeline.options import Options

P = ParamSpec("P")
T = TypeVar("T")

DROP_IN = "fxport.onnx.export takes the arguments of torch.onnx.export"

ELSEWHERE: Mapping[str, str] = {
    "f": "write the file with export(...).save(path)",
    "path": "write the file with export(...).save(path)",
    "external_data": "give it to save: export(...).save(path, external_data=True)",
    "export_params": "give it to save: export(...).save(path, include_initializers=False)",
    "keep_initializers_as_inputs": "give it to save: export(...).save(path, keep_initializers_as_inputs=True)",
    "custom_translation_table": "give functions of the builder as lowerings={torch.ops.lib.op.default: function}",
    "verify": "fxport.export_and_validate compares with ONNX Runtime",
    "report": "the findings are in export(...).log",
    "opset": "it is called opset_version here",
}
"""Advice for arguments of torch.onnx.export, and for similar names, in a call of `fxport.export`."""

TORCH_ONNX = frozenset(
    {
        *ELSEWHERE,
        *("verbose", "dynamo", "optimize", "profile", "dump_exported_program", "artifacts_dir", "fallback", "training"),
        *("operator_export_type", "do_constant_folding", "custom_opsets", "export_modules_as_functions"),
        "autograd_inlining",
    }
)


class CallError(FxportError, TypeError):
    """An argument of the wrong type, or an unknown one. The text names it, and says what to give."""


def with_known_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """The function, whose unknown keywords are TypeErrors that name the right one."""
    names = frozenset(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for keyword in kwargs:
            if keyword not in names:
                raise CallError(f"export() has no argument '{keyword}': {_instead(keyword, names)}")
        return function(*args, **kwargs)

    return call


def _instead(keyword: str, names: Collection[str]) -> str:
    if keyword in ELSEWHERE:
        return f"{ELSEWHERE[keyword]}; {DROP_IN}" if keyword in TORCH_ONNX - {"path", "opset"} else ELSEWHERE[keyword]
    if keyword in Options.__slots__:
        return f"give options=fxport.Options({keyword}=...)"
    if keyword in TORCH_ONNX:
        return DROP_IN
    return nearest(keyword, names)


def nearest(name: str, known: Collection[str]) -> str:
    """The nearest of the known names, or all of them where none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"did you mean '{near[0]}'?" if near else f"the arguments are {', '.join(sorted(known))}"


def checked_model(model: Any) -> Any:
    """The model. Raises TypeError for what torch.export cannot take."""
    from torch.export import ExportedProgram

    if isinstance(model, torch.nn.Module | ExportedProgram):
        return model
    if isinstance(model, type):
        raise CallError(f"model is the class '{model.__name__}'; give an instance of it")
    if callable(model):
        raise CallError(f"model is a {type(model).__name__}; call it in the forward of an nn.Module, and give that")
    found = "None" if model is None else f"a {type(model).__name__}"
    raise CallError(f"model is {found}; give an nn.Module or an ExportedProgram")


def checked_args(args: Any) -> tuple[Any, ...]:
    """The positional arguments; a lone tensor is the only one. Raises TypeError for what is no sequence of them."""
    if isinstance(args, torch.Tensor):
        return (args,)
    if isinstance(args, np.ndarray):
        raise CallError("args is a numpy array; give a tensor: torch.from_numpy(array)")
    if isinstance(args, Mapping):
        raise CallError("args is a dict; give keyword arguments as such: export(model, kwargs={'name': value})")
    if not isinstance(args, tuple | list):
        raise CallError(f"args is a {type(args).__name__}; give the tuple of positional arguments: export(model, (x,))")
    for index, value in enumerate(args):
        _require_torch(f"args[{index}]", value)
    return tuple(args)


def checked_kwargs(kwargs: Any) -> dict[str, Any]:
    """The keyword arguments. Raises TypeError for anything else, such as a path, which torch.onnx.export has there."""
    if isinstance(kwargs, str | os.PathLike):
        path = os.fspath(kwargs)
        raise CallError(f"kwargs is a path; write the model with export(model, args).save({path!r}); {DROP_IN}")
    if not isinstance(kwargs, Mapping | None):
        raise CallError(f"kwargs is a {type(kwargs).__name__}; give a dict by the names of forward's arguments")
    for name, value in (kwargs or {}).items():
        if not isinstance(name, str):
            raise CallError(f"kwargs has the key {name!r}; the keys are names of forward's arguments")
        _require_torch(f"kwargs['{name}']", value)
    return dict(kwargs or {})


def _require_torch(where: str, value: Any) -> None:
    """Refuses arrays and scalars of numpy, at any depth."""
    if isinstance(value, np.ndarray):
        raise CallError(f"{where} is a numpy array; give a tensor: torch.from_numpy(array)")
    if isinstance(value, np.generic) and not isinstance(value, float | complex):  # np.float64 is a float of Python
        raise CallError(f"{where} is a numpy {type(value).__name__}; give the number: value.item()")
    if isinstance(value, tuple | list):
        for index, each in enumerate(value):
            _require_torch(f"{where}[{index}]", each)
    elif isinstance(value, dict):
        for key, each in value.items():
            _require_torch(f"{where}[{key!r}]", each)


def require_choices(
    *,
    input_names: object = None,
    output_names: object = None,
    opset_version: object = None,
    lowerings: object = None,
    weights: object = None,
    dynamic_shapes: object = None,
    dynamic_axes: object = None,
    options: object = None,
    log: object = None,
) -> None:
    """Raises TypeError for a choice of the wrong type, and ValueError for two that say the same."""
    _require_names("input_names", input_names)
    _require_names("output_names", output_names)
    if opset_version is not None and (not isinstance(opset_version, int) or isinstance(opset_version, bool)):
        raise CallError(f"opset_version is {shown(opset_version)}; give an int, such as 18")
    if lowerings is not None:
        _require_lowerings(lowerings)
    if not isinstance(weights, str | os.PathLike | None):
        raise CallError(f"weights is {shown(weights)}; give the path of a checkpoint")
    if not isinstance(dynamic_axes, Mapping | None):
        raise CallError(f"dynamic_axes is {shown(dynamic_axes)}; give a dict: {{'input': {{0: 'batch'}}}}")
    if dynamic_axes and dynamic_shapes is not None:
        raise ValueError("dynamic_axes and dynamic_shapes are both given; say all in dynamic_shapes")
    if not isinstance(options, Options | None):
        raise CallError(f"options is {shown(options)}; give fxport.Options(...)")
    if not isinstance(log, Log | None):
        raise CallError(f"log is {shown(log)}; give a fxport.Log()")


def _require_names(what: str, names: object) -> None:
    if isinstance(names, str):
        raise CallError(f"{what} is the string {names!r}; give a list: [{names!r}]")
    if not isinstance(names, Sequence | None):
        raise CallError(f"{what} is {shown(names)}; give a list of strings")
    for index, name in enumerate(names or ()):
        if not isinstance(name, str):
            raise CallError(f"{what}[{index}] is {shown(name)}; give a string")


def _require_lowerings(lowerings: object) -> None:
    from fxport.exporter.lowering.lower.registry import Lowering

    example = "a lowering is a function of the builder: {torch.ops.aten.neg.default: lambda op, x: op.Neg(x)}"
    if not isinstance(lowerings, Mapping):
        raise CallError(f"lowerings is {shown(lowerings)}; give a dict; {example}")
    for target, function in lowerings.items():
        if isinstance(target, OpOverloadPacket):
            first = f"torch.ops.{target}.{target.overloads()[0]}"
            raise CallError(f"lowerings has the key torch.ops.{target}; a key names an overload, as {first}")
        if not isinstance(target, OpOverload | HigherOrderOperator):
            raise CallError(f"lowerings has the key {shown(target)}; a key is an operator of PyTorch; {example}")
        if not callable(function) and not isinstance(function, Lowering):
            raise CallError(f"lowerings[{target}] is {shown(function)}; {example}")


def shown(value: object) -> str:
    """A value with its type: "'18', a str"."""
    kind = type(value).__name__
    text = repr(value)
    return f"{text}, {'an' if kind[:1] in 'aeiou' else 'a'} {kind}" if len(text) <= 60 else f"a {kind}"
