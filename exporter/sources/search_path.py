"""Folders of the user's in which Python looks for modules while a SOURCE is imported."""

from __future__ import annotations

import sys
from pathlib import Path

from fxport.exporter.sources.usage import UsageError
from fxport.exporter.sources.users_code import shown

NEEDED = (
    "google",
    "jinja2",
    "ml_dtypes",
    "mpmath",
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "pydantic",
    "rich",
    "safetensors",
    "sarif_om",
    "sympy",
    "torch",
    "typer",
)
"""Modules of the packages that fxport imports, also after it has imported SOURCE."""


def look_first_in(folder: Path) -> None:
    """Put a folder first on `sys.path`. Raises UsageError if what lies in it would stand for a package of fxport's."""
    for name in NEEDED:
        if name not in sys.modules and (file := hiding(folder, name)) is not None:
            raise UsageError(f"'{shown(str(file))}' hides the package '{name}', which fxport needs; rename it.")
    sys.path.insert(0, str(folder))


def look_last_in(folder: Path) -> None:
    """Put a folder last on `sys.path`, where it hides nothing that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def hiding(folder: Path, name: str) -> Path | None:
    """The file or folder that `import NAME` finds in a folder, if there is one."""
    package, module = folder / name, folder / f"{name}.py"
    if (package / "__init__.py").is_file():
        return package
    return module if module.is_file() else None
