"""The Python modules of a process that are the user's own files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

from fxport.diagnostics.source import USER, kind_of

_last: tuple[Mapping[str, ModuleType], Mapping[str, ModuleType]] = ({}, {})
"""`sys.modules` as it was at the last call, and what was found in it."""


def users_modules() -> Mapping[str, ModuleType]:
    """Return the modules by their names in `sys.modules`, which holds thousands of others and seldom changes."""
    global _last
    loaded = dict(sys.modules)
    if loaded != _last[0]:
        files = {name: getattr(module, "__file__", None) for name, module in loaded.items()}
        users = [name for name, file in files.items() if isinstance(file, str) and kind_of(file) == USER]
        _last = (loaded, {name: loaded[name] for name in users})
    return _last[1]
