"""The Python modules of a process that are the user's own files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

from fxport.diagnostics.source import USER, kind_of

_last: tuple[list[str], list[ModuleType], Mapping[str, ModuleType]] = ([], [], {})
"""The names and the modules of `sys.modules` at the last call, and what was found among them."""


def users_modules() -> Mapping[str, ModuleType]:
    """Return the modules by their names in `sys.modules`, which holds thousands of others and seldom changes."""
    global _last
    names, modules = [*sys.modules], [*sys.modules.values()]  # lists of the same objects are compared in no time
    if (names, modules) != _last[:2]:
        loaded = dict(zip(names, modules, strict=True))
        files = {name: getattr(module, "__file__", None) for name, module in loaded.items()}
        users = [name for name, file in files.items() if isinstance(file, str) and kind_of(file) == USER]
        _last = (names, modules, {name: loaded[name] for name in users})
    return _last[2]
