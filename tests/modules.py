"""Modules of texts that tests write: each a file of its own, as a user's would be."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def module_of(path: Path) -> ModuleType:
    """Run a file as a module, which is found by its name afterwards."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def module_with(source: str, folder: Path, kind: str) -> ModuleType:
    """Write a text to a file named by its kind and its content, and run it."""
    path = folder / f"{kind}_{abs(hash(source))}.py"
    path.write_text(source, encoding="utf-8")
    return module_of(path)
