"""`fxport ops`: what can be lowered."""

from __future__ import annotations

from importlib import resources
from typing import Annotated

import typer

from fxport.exporter.sources.usage import UsageError

FILE = "ops.tsv"
"""The list as it is shown. `python -c "from fxport.exporter.cli import ops; print(ops.written(), end='')"` makes it."""


def command(
    word: Annotated[
        str | None, typer.Argument(metavar="WORD", help="Only operators with this word in the name.")
    ] = None,
) -> None:
    """List the operators that have a lowering, with its family and the first opset that can express it."""
    rows = listed()
    chosen = [row for row in rows if word is None or word in row[0]]
    if not chosen:
        raise UsageError(f"No operator with a lowering has '{word}' in its name; `fxport ops` lists all {len(rows)}.")
    widths = [max(len(str(row[column])) for row in chosen) for column in range(2)]
    for name, family, opset in chosen:
        print(f"{name:<{widths[0]}}  {family:<{widths[1]}}  opset {opset}")


def listed() -> list[tuple[str, str, int]]:
    """Name, family and first opset of each operator, from the file that `written` makes: torch is not imported."""
    lines = resources.files("fxport.exporter.cli").joinpath(FILE).read_text(encoding="utf-8").splitlines()
    return [(name, family, int(opset)) for name, family, opset in (line.split("\t") for line in lines)]


def written() -> str:
    """The text of the file, from the lowerings themselves."""
    from fxport.exporter.lowering.lowerings import LOWERINGS
    from fxport.exporter.pipeline.options import MIN_OPSET

    rows = sorted((str(target), family_of(entry), max(MIN_OPSET, entry.since)) for target, entry in LOWERINGS.items())
    return "".join(f"{name}\t{family}\t{opset}\n" for name, family, opset in rows)


def family_of(lowering: object) -> str:
    """`pointwise` for a lowering of `fxport.exporter.lowering.lowerings.pointwise`."""
    function = getattr(lowering, "function", lowering)
    return getattr(function, "__module__", "").rpartition(".")[2]
