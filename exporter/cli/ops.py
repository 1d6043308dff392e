"""`fxport ops`: what can be lowered."""

from __future__ import annotations

from typing import Annotated

import typer

from exporter.cli.usage import UsageError


def command(
    word: Annotated[
        str | None, typer.Argument(metavar="WORD", help="Only operators with this word in the name.")
    ] = None,
) -> None:
    """List the operators that have a lowering, with its family and the first opset that can express it."""
    from exporter.lowerings import LOWERINGS
    from exporter.options import MIN_OPSET

    rows = sorted((str(target), family_of(entry), max(MIN_OPSET, entry.since)) for target, entry in LOWERINGS.items())
    chosen = [row for row in rows if word is None or word in row[0]]
    if not chosen:
        raise UsageError(f"No operator with a lowering has '{word}' in its name; `fxport ops` lists all {len(rows)}.")
    widths = [max(len(str(row[column])) for row in chosen) for column in range(2)]
    for name, family, opset in chosen:
        print(f"{name:<{widths[0]}}  {family:<{widths[1]}}  opset {opset}")


def family_of(lowering: object) -> str:
    """`pointwise` for a lowering of `exporter.lowerings.pointwise`."""
    function = getattr(lowering, "function", lowering)
    return getattr(function, "__module__", "").rpartition(".")[2]
