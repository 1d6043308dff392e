"""`isinstance(x.shape[1], int)` in a capture: a symbolic size is no int to Python, though it stands for one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

STANDS_FOR: Mapping[type, Any] = {torch.SymInt: 0, torch.SymFloat: 0.5, torch.SymBool: True}
"""A number of the kind that eager PyTorch has in the place of each."""

NAME = "isinstance"

OTHERS = frozenset({"torch", "builtins", "typing", "abc"})
"""Packages that know of symbolic numbers, or have no model in them."""


def is_kind(value: Any, kinds: Any) -> bool:
    """Return what Python's isinstance does, with symbolic numbers as the plain ones that they stand for."""
    return isinstance(value, kinds) or (type(value) in STANDS_FOR and isinstance(STANDS_FOR[type(value)], kinds))


@contextmanager
def sizes_are_integers(model: torch.nn.Module) -> Iterator[None]:
    """Make isinstance `is_kind` in the files of the model's classes, as a global that comes before the builtin."""
    names = {kind.__module__ for module in model.modules() for kind in type(module).__mro__}
    files = [
        sys.modules[name] for name in sorted(names) if name in sys.modules and name.partition(".")[0] not in OTHERS
    ]
    changed = [file for file in files if NAME not in vars(file)]
    for file in changed:
        setattr(file, NAME, is_kind)
    try:
        yield
    finally:
        for file in changed:
            delattr(file, NAME)
