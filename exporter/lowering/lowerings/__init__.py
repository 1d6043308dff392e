"""The lowerings, one file a family, and the table of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from fxport.exporter.lowering.lower.registry import Lowering, collect

LOWERINGS: Mapping[Any, Lowering] = collect(
    import_module(f"{__name__}.{module.name}") for module in sorted(iter_modules(__path__))
)
"""By ATen overload or higher-order op, of all modules beside this one."""
