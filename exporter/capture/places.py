"""Places in the user's source where no stack trace says one: a module's own code."""

from __future__ import annotations

import inspect

import torch

from diagnostics import Place


def place_of_module(root: torch.nn.Module, path: str = "") -> Place | None:
    """The `forward` of the innermost module on the way from `root` to `path` that is the user's own code.

    PyTorch's own modules say nothing about the user's program, so the module that holds them stands for them.
    """
    if isinstance(root, torch.jit.ScriptModule):  # its code is TorchScript, which has no place in the source
        return None
    parts = path.split(".") if path else []
    for depth in range(len(parts), -1, -1):
        owner = root.get_submodule(".".join(parts[:depth]))
        if not type(owner).__module__.startswith("torch."):
            return place_of_function(type(owner).forward, path)
    return None


def place_of_function(function: object, module: str | None = None) -> Place | None:
    """The line where a function is defined; None for one without source."""
    try:
        file = inspect.getsourcefile(function)  # type: ignore[arg-type]  # anything else raises TypeError
        _, line = inspect.getsourcelines(function)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return None
    return Place(path=file, line=line, module=module or None) if file else None
