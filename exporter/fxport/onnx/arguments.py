"""Arguments of `torch.onnx.export`: checked by type, and brought into the form that `fxport.export` takes."""

from __future__ import annotations

import inspect
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.onnx import OperatorExportTypes, TrainingMode

from fxport.exporter.distributed import is_sharded
from fxport.exporter.pipeline.calls import CallError, checked_args, checked_kwargs, checked_model, shown

FLAGS = (
    *("dynamo", "external_data", "report", "optimize", "verify", "profile", "dump_exported_program", "fallback"),
    *("export_params", "keep_initializers_as_inputs", "do_constant_folding", "autograd_inlining"),
)
"""Arguments that are True or False."""


def require_types(given: Mapping[str, Any]) -> None:
    """Raises TypeError for an argument of another type than torch.onnx.export has, by the name of the argument."""
    for name in FLAGS:
        if not isinstance(given[name], bool):
            raise CallError(f"{name} is {shown(given[name])}; give True or False")
    if not isinstance(given["verbose"], bool | None):
        raise CallError(f"verbose is {shown(given['verbose'])}; give True, False or None")
    if not isinstance(given["artifacts_dir"], str | os.PathLike):
        raise CallError(f"artifacts_dir is {shown(given['artifacts_dir'])}; give the path of a folder")
    if not isinstance(given["training"], TrainingMode):
        raise CallError(f"training is {shown(given['training'])}; give a fxport.onnx.TrainingMode")
    if not isinstance(given["operator_export_type"], OperatorExportTypes):
        kind = shown(given["operator_export_type"])
        raise CallError(f"operator_export_type is {kind}; give fxport.onnx.OperatorExportTypes.ONNX")
    require_file(given["f"])
    require_opsets(given["custom_opsets"])


def require_file(f: object) -> None:
    """Raises TypeError for what a model cannot be written to, and OSError for such a path."""
    if f is None:
        return
    if isinstance(f, io.TextIOBase):
        raise CallError("f is a file of text; open it with mode 'wb'")
    if isinstance(f, str | os.PathLike):
        require_place(Path(f))
        return
    if not hasattr(f, "write"):
        raise CallError(f"f is {shown(f)}; give a path, a file opened for writing bytes, or None")


def require_opsets(opsets: object) -> None:
    """Raises TypeError for what is no mapping from domains to versions, ValueError for the standard's own domain."""
    if not isinstance(opsets, Mapping | None):
        raise CallError(f"custom_opsets is {shown(opsets)}; give a dict: {{'domain': version}}")
    for domain, version in (opsets or {}).items():
        if not isinstance(domain, str) or not isinstance(version, int) or isinstance(version, bool):
            raise CallError(f"custom_opsets has {domain!r}: {version!r}; give versions by domains: {{'domain': 1}}")
        if domain in ("", "ai.onnx"):
            raise ValueError("custom_opsets names the domain of ONNX itself; give its version as opset_version")


def require_place(path: Path) -> None:
    """Refuse a path that no model can be written to, before the export and not behind it. Raises OSError."""
    if path.is_dir():
        raise IsADirectoryError(f"f is the folder '{path}'; name a file in it, such as '{path / 'model.onnx'}'")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder '{path.parent}' for '{path.name}'; make it first")


def require_possible(given: Mapping[str, Any]) -> None:
    """Raises ValueError for what fxport does not do, with what to write instead."""
    if given["operator_export_type"] != OperatorExportTypes.ONNX:
        raise ValueError(
            f"operator_export_type is {given['operator_export_type'].name}; fxport writes ONNX only. For operators of "
            "libraries as nodes of their own domain give options=fxport.Options(custom_ops=True)"
        )
    if given["export_modules_as_functions"]:
        raise ValueError(
            "export_modules_as_functions is no longer in PyTorch's exporter, and not in fxport; mark what is to be a "
            "function of the model with torch.compiler.nested_compile_region"
        )
    if not given["autograd_inlining"]:
        raise ValueError(
            "autograd_inlining is False; the forward of an autograd.Function is always in the model. For a node of its "
            "own make it a torch.library.custom_op, and give options=fxport.Options(custom_ops=True)"
        )
    model, training = given["model"], given["training"]
    if training is TrainingMode.TRAINING and isinstance(model, torch.nn.Module) and not model.training:
        raise ValueError("training is TRAINING, but the model is in eval mode; call model.train() before the export")


def warn_without_effect(given: Mapping[str, Any]) -> None:
    """Tells what has no effect here."""
    if not given["dynamo"]:
        warnings.warn(
            "dynamo=False chooses PyTorch's exporter of TorchScript; fxport has one exporter, on torch.export, which "
            "runs now; leave dynamo out",
            DeprecationWarning,
            stacklevel=3,
        )
    if given["fallback"]:
        message = "fallback=True has no effect: fxport has no other exporter to fall back to; leave it out"
        warnings.warn(message, DeprecationWarning, stacklevel=3)


def torch_model(model: object) -> Any:
    """The model. Raises TypeError for what cannot be exported, TorchScript included."""
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise CallError(
            f"model is a torch.jit.{type(model).__name__}, whose Python code is lost; give the nn.Module that it was "
            "made from"
        )
    checked = checked_model(model)
    if is_sharded(checked):
        raise CallError("model is held by several ranks; fxport.export exports it on all of them together")
    return checked


def call_of(model: Any, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call, from the forms of torch.onnx.export: a lone tensor, and keywords as a dict at the end of `args`."""
    positional = checked_args(args)
    if kwargs or not positional or not isinstance(positional[-1], dict) or not isinstance(model, torch.nn.Module):
        return positional, checked_kwargs(kwargs)
    *first, last = positional
    if not _fits(model, positional, {}) or _fits(model, first, last):
        return tuple(first), checked_kwargs(last)
    return positional, {}


def _fits(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[Any, Any]) -> bool:
    """Return True if forward accepts these arguments."""
    if not all(isinstance(name, str) for name in kwargs):
        return False
    try:
        inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError:
        return False
    return True
