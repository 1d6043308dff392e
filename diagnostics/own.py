"""Folders of fxport's own packages, installed or in a working tree."""

from __future__ import annotations

import site
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("diagnostics", "exporter", "fx_passes", "ort_runner")
"""The packages within `fxport`."""


@cache
def own_folders() -> Sequence[Path]:
    """Return the folders of `fxport` itself and of its packages, which lie beside each other but not always in it."""
    home = Path(__file__).resolve().parent.parent
    package = find_spec("fxport")
    folders = [] if package is None else [Path(each).resolve() for each in package.submodule_search_locations or ()]
    return (*folders, *(home / package for package in PACKAGES))


@cache
def import_folder() -> Path | None:
    """Return the folder that must be in `sys.path` to import `fxport`, where it is in none that Python adds itself.

    None too where an import hook finds it, as for an editable install, which every child of this Python has as well.
    """
    package = find_spec("fxport")
    folders = [Path(each).resolve() for each in package.submodule_search_locations or ()] if package else []
    own = next((each.parent for each in folders if (each / "diagnostics").exists()), None)
    installed = {Path(each).resolve() for each in (*site.getsitepackages(), site.getusersitepackages())}
    return None if own in installed else own
