"""`primaryLocationLineHash`: the fingerprint by which GitHub code scanning knows a line again.

The algorithm is that of CodeQL's upload action (github/codeql-action, src/fingerprints.ts): a polynomial hash over the
100 UTF-16 units from the start of the line that are neither spaces nor tabs, and how often that hash was seen above.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

_WINDOW = 100
_FACTOR = 37
_MODULUS = 1 << 64
_END_OF_FILE = 0xFFFF
_NEWLINE = 0x0A


@lru_cache(maxsize=64)
def line_hashes(text: str) -> tuple[str, ...]:
    """The fingerprint of each line of a file, "c129715d7a2bc9a3:1"."""
    units = _units(text)
    starts = [0, *(index + 1 for index, unit in enumerate(units[:-1]) if unit == _NEWLINE)]
    units += [0] * _WINDOW
    prefix = [0]
    for unit in units:
        prefix.append((prefix[-1] * _FACTOR + unit) % _MODULUS)
    high = pow(_FACTOR, _WINDOW, _MODULUS)
    seen: Counter[int] = Counter()
    hashes: list[str] = []
    for start in starts:
        value = (prefix[start + _WINDOW] - prefix[start] * high) % _MODULUS
        seen[value] += 1
        hashes.append(f"{value:x}:{seen[value]}")
    return tuple(hashes)


def _units(text: str) -> list[int]:
    """UTF-16 units without spaces and tabs, line ends as line feeds, and the mark that ends a file."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(" ", "").replace("\t", "")
    data = text.encode("utf-16-le", "surrogatepass")
    return [*(data[at] | data[at + 1] << 8 for at in range(0, len(data), 2)), _END_OF_FILE]
