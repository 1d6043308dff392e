"""A source file as text with plain line ends, and the text with edits as the bytes of that file: its own ends, encoding
and byte order mark."""

from __future__ import annotations

import difflib
import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics.edits import EditError
from fxport.diagnostics.paths import write_whole

_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class SourceText:
    """`text` has the line end that Python reads, `ends` those of the file by line."""

    path: Path
    text: str
    encoding: str
    ends: tuple[str, ...]

    def bytes_of(self, text: str) -> bytes:
        """The new text as the file would have it. Raises EditError for what its encoding cannot hold."""
        try:
            return self._with_ends(text).encode(self.encoding)
        except UnicodeEncodeError as error:
            raise EditError(f"{self.path}: {error}") from error

    def write(self, text: str) -> None:
        """Write the new text; a file of several names stays one file. Raises OSError and EditError."""
        data = self.bytes_of(text)
        if self.path.stat().st_nlink > 1:  # a new file in its place would leave the other names with the old text
            self.path.write_bytes(data)
        else:
            write_whole(self.path, data)

    def _with_ends(self, text: str) -> str:
        """Lines that stay keep their ends; a changed one has that of the line it stands for, a new one of the next."""
        old, new = self.text.split("\n"), text.split("\n")
        usual = Counter(self.ends).most_common(1)[0][0] if self.ends else "\n"
        ends: list[str] = []
        for kind, first, last, start, stop in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind == "equal":
                ends += [self._end(number, usual) for number in range(first, last)]
            else:
                most = min(max(first, last - 1), len(self.ends) - 1)
                ends += [self._end(min(first + number, most), usual) for number in range(stop - start)]
        return "".join(line + end for line, end in zip(new, ends, strict=True))[: -len(ends[-1]) or None]

    def _end(self, line: int, usual: str) -> str:
        return self.ends[line] if 0 <= line < len(self.ends) else usual


def source_text(path: str | Path) -> SourceText:
    """Read a file as Python would. Raises EditError for one that is no Python text."""
    file = Path(path)
    try:
        data = file.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        raw = data.decode(encoding)
    except (OSError, SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise EditError(f"{path}: {error}") from error
    return SourceText(file, _END.sub("\n", raw), encoding, tuple(_END.findall(raw)))
