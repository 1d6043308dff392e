"""Sources of a model: the files of its modules, and the files that were read while it was made."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fxport.diagnostics.source import LIBRARY, USER, kind_of
from fxport.exporter.checks.items import Item

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".npz")
"""Files that libraries in other languages read unseen: they count where a file beside them was read."""
ELSEWHERE = ("/proc/", "/sys/", "/dev/")


class Traces:
    """Notes the files that are opened for reading while its blocks run, by an audit hook of the interpreter.

    Of several blocks in one process the later ones also have the files of the earlier ones: a module that was imported
    for another model is not read again.
    """

    def __init__(self) -> None:
        self._opened: set[str] = set()
        self._modules = set(sys.modules)
        self._watching = False
        sys.addaudithook(self._hook())  # it cannot be removed: it ends with the process, and is deaf outside of blocks

    def __enter__(self) -> Self:
        self._watching = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watching = False

    def _hook(self) -> Callable[[str, tuple[Any, ...]], None]:  # Any: events carry what they like
        """A function, as torch raises ten thousand events a model, and a method costs four times as much for each."""

        def note(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "open" and self._watching:
                path, _, flags = arguments
                if isinstance(path, str | bytes) and isinstance(flags, int) and flags & os.O_ACCMODE == os.O_RDONLY:
                    self._opened.add(os.path.abspath(os.fsdecode(path)))

        return note

    def files(self, item: Item, written: Path) -> list[str]:
        """The user's files that the result depends on, sorted; none of the folder that the model is `written` to."""
        named = [*item.samples, item.source if item.source.endswith(".pt2") else "", *_checkpoint(item.weights)]
        modules = [getattr(module, "__file__", None) for _, module in self._imported()]
        found = {os.path.abspath(path) for path in (*named, *modules) if path} | self._opened
        made = os.path.join(written.parent, "")
        found = {path for path in found if not path.startswith(made) and _counts(path)}
        return sorted(found | {path for path in _beside(found) if not path.startswith(made) and _counts(path)})

    def libraries(self) -> list[str]:
        """Installed modules that were imported meanwhile, in the order of their import."""
        return [
            name for name, module in self._imported() if kind_of(getattr(module, "__file__", None) or "") == LIBRARY
        ]

    def _imported(self) -> list[tuple[str, object]]:
        return [(name, module) for name, module in list(sys.modules.items()) if name not in self._modules]


def _checkpoint(weights: str | None) -> list[str]:
    """The files of a checkpoint."""
    if weights is None or not os.path.isdir(weights):
        return [weights or ""]
    return [str(path) for path in Path(weights).iterdir()]


def _beside(found: set[str]) -> Iterator[str]:
    for folder in {os.path.dirname(path) for path in found if not path.endswith(".py")}:
        yield from (os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(WEIGHTS))


def _counts(path: str) -> bool:
    if path.startswith(ELSEWHERE) or path.endswith(".pyc"):
        return False
    return kind_of(path) == USER and os.path.isfile(path) and not _temporary(path)


def _temporary(path: str) -> bool:
    """Return True if a file is in the system's temporary folder, unless the project itself is there."""
    folder = os.path.join(tempfile.gettempdir(), "")
    return path.startswith(folder) and not os.getcwd().startswith(folder)
