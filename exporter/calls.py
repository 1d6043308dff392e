"""What is handed to `export`: a call as torch.export takes it, or a TypeError that says what to give."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram


def checked_model(model: Any) -> Any:
    """The model. Raises TypeError for what torch.export cannot take."""
    if isinstance(model, torch.nn.Module | ExportedProgram):
        return model
    if isinstance(model, type):
        raise TypeError(f"model is the class '{model.__name__}'; give an instance of it")
    if callable(model):
        raise TypeError(f"model is a {type(model).__name__}; call it in the forward of an nn.Module, and give that")
    raise TypeError(f"model is a {type(model).__name__}; give an nn.Module or an ExportedProgram")


def checked_args(args: Any) -> tuple[Any, ...]:
    """The positional arguments; a lone tensor is the only one. Raises TypeError for what is no sequence of them."""
    if isinstance(args, torch.Tensor):
        return (args,)
    if isinstance(args, Mapping):
        raise TypeError("args is a dict; keyword arguments come after it: export(model, (), {'name': value})")
    if not isinstance(args, tuple | list):
        raise TypeError(f"args is a {type(args).__name__}; give the tuple of positional arguments: export(model, (x,))")
    return tuple(args)


def checked_kwargs(kwargs: Any) -> dict[str, Any]:
    """The keyword arguments. Raises TypeError for anything else, such as a path, which torch.onnx.export has there."""
    if isinstance(kwargs, str | os.PathLike):
        path = os.fspath(kwargs)
        raise TypeError(f"kwargs is a path; write the model with export(model, args).save({path!r})")
    if not isinstance(kwargs, Mapping | None):
        raise TypeError(f"kwargs is a {type(kwargs).__name__}; give a dict by the names of forward's arguments")
    return dict(kwargs or {})
