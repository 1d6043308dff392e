"""The provenance table in a model's metadata: rows of [path or null, line, module path, FX node], from a file."""

from __future__ import annotations

from fxport.diagnostics.limits import METADATA, json_of
from fxport.diagnostics.strangers import shown_path

PLACES_KEY = "fxport.places"

Row = tuple[str | None, int, str | None, str | None]


def rows_of(text: str) -> list[Row]:
    """Read the table of a file, which may be a stranger's: of files that may not be read, only the names are kept.

    Raises ValueError for anything but a table.
    """
    try:
        rows = json_of(text, METADATA)
        if not isinstance(rows, list):
            raise TypeError(f"a list is expected, not {type(rows).__name__}")
        shown = {path: shown_path(str(path)) for path in {row[0] for row in rows if row[0] is not None}}
        return [
            (None if file is None else shown[file], max(1, int(line or 1)), _text(module), _text(node))
            for file, line, module, node in rows
        ]
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise ValueError(f"the metadata '{PLACES_KEY}' is no provenance table: {error}") from error


def _text(value: object) -> str | None:
    return str(value) if value else None
