"""Places in the user's source where no stack trace tells one: a module's own code."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import torch

from fxport.diagnostics import Place
from fxport.diagnostics.calls import last_naming, last_return, last_setting
from fxport.diagnostics.source import LIBRARY, USER, kind_of, lines_of, place_of_stack

SOURCES = (".py", ">")
"""Endings of the names of Python's sources, also of notebooks; a script of a distribution has no ending."""

_SCRIPTED = re.compile(r"# (.+?):(\d+):\d+$", re.MULTILINE)


class Around(torch.nn.Module):
    """A module of fxport's own that is captured in the place of a user's, which it calls: findings are about that.

    Args:
        module: The user's module.
        functions: Functions of the user's that it calls as well.
    """

    def __init__(self, module: torch.nn.Module, functions: Sequence[Callable[..., Any]] = ()) -> None:
        super().__init__()
        self.around = (module,)  # in a tuple, so that it does not become a submodule
        self.functions = (*functions,)

    def finish_trace(self, gm: torch.fx.GraphModule) -> None:
        """Change the graph of a trace, before PyTorch describes its inputs and outputs."""


def of_user(root: torch.nn.Module) -> torch.nn.Module:
    """Return the module that the user wrote or chose."""
    return root.around[0] if isinstance(root, Around) else root


def is_of_layer(name: str, root: torch.nn.Module) -> bool:
    """Return True if `name` is the path of an attribute of the model or of one of its layers."""
    owner, _, last = name.rpartition(".")
    layers = dict(of_user(root).named_modules())
    return owner in layers and last in vars(layers[owner])


def place_of_module(root: torch.nn.Module, path: str = "") -> Place | None:
    """Return the `forward` of the innermost module from `root` to `path` that is the user's own code.

    PyTorch's own modules say nothing about the user's program, so the module that holds them stands for them.
    """
    if isinstance(root, torch.jit.ScriptModule):  # its code is TorchScript's, which notes where it came from
        return _place_of_script(root, path)
    root = of_user(root)
    parts = path.split(".") if path else []
    for depth in range(len(parts), -1, -1):
        owner = root.get_submodule(".".join(parts[:depth]))
        if not type(owner).__module__.startswith("torch."):
            return place_of_function(type(owner).forward, path)
    return None


def place_of_call() -> Place | None:
    """Return the line of the user's that has called fxport; None where there is none, as on the command line."""
    place = place_of_stack(traceback.walk_stack(sys._getframe(1)))
    return place if place is not None and kind_of(place.path) == USER and place.path.endswith(SOURCES) else None


def place_of_return(root: torch.nn.Module) -> Place | None:
    """Return the last `return` of a model's own forward; None where it has none, or no source."""
    at = None if isinstance(root, torch.jit.ScriptModule) else place_of_function(type(of_user(root)).forward)
    if at is None:
        return None
    line = last_return("".join(lines_of(at.path)), at.line)
    return None if line is None else replace(at, line=line)


def _place_of_script(root: torch.jit.ScriptModule, module: str) -> Place | None:
    """Return the first line of the user's in a graph of TorchScript, whose nodes end in `# file:line:column`."""
    for file, line in _SCRIPTED.findall(str(root.graph)):
        if kind_of(file) == USER:
            return Place(path=file, line=int(line), module=module or None)
    return None


def place_of_change(
    at: Place | None,
    functions: Sequence[FunctionType],
    names: frozenset[str],
    methods: frozenset[str] = frozenset(),
) -> Place | None:
    """Return the last line that sets one of these names, as a variable, an attribute, an item or by `setattr`.

    It is sought in the function at `at`, then in the others, those of the user first; then a line that speaks of it, or
    of the methods that set it if it has such.
    """
    speaking = [each for each in functions if not (names | methods).isdisjoint({*_words(each.__code__)})]
    others = [place_of_function(each) for kind in (USER, LIBRARY) for each in speaking if _kind(each) == kind]
    for last, wanted in ((last_setting, names), (last_naming, methods or names)):
        for place in (at, *others):
            line = None if place is None else last("".join(lines_of(place.path)), place.line, wanted)
            if place is not None and line is not None:
                return replace(place, line=line, module=at and at.module)
    return at


def _kind(function: FunctionType) -> str:
    return kind_of(function.__code__.co_filename)


def _words(code: CodeType) -> Iterator[str]:
    """Yield the names and texts in the code of a function and of those within it."""
    yield from (*code.co_names, *code.co_freevars)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _words(each)
        elif isinstance(each, str):
            yield each


def place_of_function(function: object, module: str | None = None) -> Place | None:
    """Return the line where a function is defined; None for one without source."""
    try:
        file = inspect.getsourcefile(function)  # type: ignore[arg-type]  # anything else raises TypeError
        _, line = inspect.getsourcelines(function)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return None
    return Place(path=file, line=line, module=module or None) if file else None
