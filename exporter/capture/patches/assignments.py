"""Tensors that `forward` assigns to attributes of modules: state that is no buffer, and that a capture loses."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from fxport.diagnostics import Place
from fxport.diagnostics.calls import last_assignment
from fxport.diagnostics.source import lines_of
from fxport.exporter.capture.places import place_of_module

ASSIGNED = re.compile(r"The tensor attributes? (.+?) (?:was|were) assigned during export")
"""Pattern of PyTorch's warning; the names begin with `self.`, which is the model."""

NAME = re.compile(r"\bself((?:\.\w+)+)")
"""An attribute; what PyTorch writes behind it, `[key]`, may hold anything."""


@contextmanager
def assigned_tensors() -> Iterator[list[str]]:
    """Collect the paths of the attributes ("layers.0.last") in the place of PyTorch's warning."""
    found: list[str] = []
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def collect(message: Warning | str, *where: Any, **more: Any) -> None:
            match = ASSIGNED.match(str(message))
            if match is None:
                shown(message, *where, **more)
            else:
                found.extend(name.removeprefix(".") for name in NAME.findall(match[1]))

        warnings.showwarning = collect
        warnings.filterwarnings("always", ASSIGNED.pattern, UserWarning)
        yield found


def is_made_anew(root: torch.nn.Module, path: str) -> bool:
    """Return whether a hook of torch.nn.utils computes the attribute before each forward, as weight norm does.

    Then its value of the last call is of no use to the next one.
    """
    owner, _, attribute = path.rpartition(".")
    hooks = root.get_submodule(owner)._forward_pre_hooks.values()
    own = [hook for hook in hooks if type(hook).__module__.startswith("torch.nn.utils.")]
    return any(attribute in (getattr(hook, "name", None), getattr(hook, "_tensor_name", None)) for hook in own)


def place_of_assignment(root: torch.nn.Module, path: str) -> Place | None:
    """Return the last line of the owner's `forward` that assigns the attribute, or that `forward` itself."""
    owner, _, attribute = path.rpartition(".")
    at = place_of_module(root, owner)
    line = last_assignment("".join(lines_of(at.path)), at.line, attribute) if at is not None else None
    return at if at is None or line is None else replace(at, line=line)
