"""Pickles of strangers: measured before they are loaded, and loaded by PyTorch's restricted reader.

A pickle of a few hundred bytes can hold a tuple that holds another one twice, which holds another one twice …: who
hashes or prints it never ends, and no signal interrupts that. Another can ask for memory by the number of a note. The
restricted reader does not look at this: it only refuses what would run code.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

from fxport.diagnostics.limits import PICKLE, Limit, LimitError, require_size

ZIP = b"PK\x03\x04"
LEGACY = 5
"""Pickles at the beginning of a file before PyTorch 1.6: a mark, a version, the system, the object, its storages."""

LEAF = 0
IN_PLACE = frozenset(("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"))
EMPTY = frozenset(("EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"))
NOTED = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
NOTES = frozenset(("GET", "BINGET", "LONG_BINGET"))


def load_restricted(source: Path | BinaryIO) -> Any:
    """Load a file of torch.save, tensors and containers alone.

    Raises LimitError for a pickle that is too large, and what PyTorch raises for a file that would run code or is
    damaged.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            _require_small_pickles(file)
        return torch.load(source, weights_only=True, map_location="cpu")
    start = source.tell()
    _require_small_pickles(source)
    source.seek(start)
    return torch.load(source, weights_only=True, map_location="cpu")


def _require_small_pickles(file: BinaryIO) -> None:
    start = file.tell()
    is_zip = file.read(len(ZIP)) == ZIP
    file.seek(start)
    if not is_zip:
        assert PICKLE.bytes is not None
        content = io.BytesIO(file.read(PICKLE.bytes))
        for _ in range(LEGACY):
            if not require_small(content, PICKLE):
                return
        return
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.filename.endswith(".pkl"):
                require_size(entry.file_size, PICKLE)
                require_small(io.BytesIO(archive.read(entry)), PICKLE)


def require_small(file: BinaryIO, limit: Limit) -> bool:
    """Refuse a pickle by the number of objects that it holds, each as often as it is referred to.

    Args:
        file: It begins at the file's position, which is then behind it.
        limit: Of its `items`.

    Returns:
        Whether it is a whole pickle.

    Raises:
        LimitError: It has more.
    """
    graph = _Graph()
    try:
        for code, argument, _ in pickletools.genops(file):
            graph.take(code, argument)
        whole = True
    except LimitError:
        raise
    except (ValueError, IndexError, KeyError):  # what stands before has been taken, and would be run
        whole = False
    assert limit.items is not None
    if graph.size(limit.items) > limit.items:
        name = limit.what.replace("`", "")
        raise LimitError(f"it holds more than {limit.items:,} objects, which is too much for {name}")
    return whole


class _Graph:
    """Objects that a pickle makes, by numbers, each with those that it refers to; none is made."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = [[]]
        self.stack: list[int] = []
        self.marks: list[int] = []
        self.notes: dict[int, int] = {}
        self.codes = 0

    def take(self, code: Any, argument: Any) -> None:
        """Do what one operation does to the stack. Raises LimitError, IndexError, KeyError."""
        self.codes += 1
        name = code.name
        if name == "MARK":
            self.marks.append(len(self.stack))
        elif name in NOTED or name == "MEMOIZE":
            self._note(len(self.notes) if name == "MEMOIZE" else argument)
        elif name in NOTES:
            self.stack.append(self.notes[argument])
        elif name == "DUP":
            self.stack.append(self.stack[-1])
        elif name == "POP" and self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self._apply(name, code.stack_before, code.stack_after)

    def _note(self, number: int) -> None:
        """Keep the last object; memory is taken for all numbers up to that of the note."""
        if number > 2 * self.codes:
            raise LimitError(f"it numbers its {self.codes}th object {number:,}, as no pickle does")
        self.notes[number] = self.stack[-1]

    def _apply(self, name: str, before: list[Any], after: list[Any]) -> None:
        taken: list[int] = []
        below = len(before)
        if pickletools.markobject in before:
            at = self.marks.pop()
            taken, below = self.stack[at:], before.index(pickletools.markobject)
            del self.stack[at:]
        if below > len(self.stack):
            raise IndexError(name)
        if below:
            taken = self.stack[-below:] + taken
            del self.stack[-below:]
        if name in IN_PLACE:
            target = taken[0] or self._new()
            self.parts[target] += taken[1:]
            self.stack.append(target)
        elif after:
            self.stack.append(self._new(taken) if taken or name in EMPTY else LEAF)

    def _new(self, parts: list[int] | None = None) -> int:
        self.parts.append(parts or [])
        return len(self.parts) - 1

    def size(self, most: int) -> int:
        """The size of the largest object, at most `most` + 1; an object that holds itself counts once."""
        sizes: dict[int, int] = {LEAF: 1}
        for root in range(len(self.parts)):
            waiting = [(root, False)]
            while waiting:
                now, done = waiting.pop()
                if done:
                    sizes[now] = min(most + 1, 1 + sum(sizes[each] for each in self.parts[now]))
                elif now not in sizes:
                    sizes[now] = 1
                    waiting.append((now, True))
                    waiting += [(each, False) for each in self.parts[now] if each not in sizes]
        return max(sizes.values())
