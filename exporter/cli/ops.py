"""`fxport ops`: what can be lowered."""

from __future__ import annotations

from typing import Annotated

import typer

from exporter.cli.usage import UsageError


def command(
    word: Annotated[
        str | None, typer.Argument(metavar="[WORD]", help="Only operators with this word in the name.")
    ] = None,
) -> None:
    """List the operators that have a lowering, with the family each stands in."""
    from exporter.lowerings import LOWERINGS

    rows = sorted((str(target), family_of(entry)) for target, entry in LOWERINGS.items())
    chosen = [row for row in rows if word is None or word in row[0]]
    if not chosen:
        raise UsageError(f"No operator with a lowering has '{word}' in its name; `fxport ops` lists all {len(rows)}.")
    width = max(len(name) for name, _ in chosen)
    for name, family in chosen:
        print(f"{name:<{width}}  {family}")


def family_of(lowering: object) -> str:
    """`pointwise` for a lowering of `exporter.lowerings.pointwise`."""
    function = getattr(lowering, "function", lowering)
    return getattr(function, "__module__", "").rpartition(".")[2]
