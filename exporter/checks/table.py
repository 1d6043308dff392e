"""The table of rows, and how many there are of each verdict."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fxport.diagnostics.amounts import size
from fxport.diagnostics.escape import one_line, terminal
from fxport.exporter.checks.rows import Row, Verdict

STYLES: Mapping[Verdict, str] = {
    Verdict.PASSED: "green",
    Verdict.EXPECTED: "cyan",
    Verdict.NOT_VALIDATED: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.NOT_CHECKED: "bold red",
}
WIDE = 200  # columns where there is no terminal to tell


def error_text(row: Row) -> str:
    error = row.facts.error if row.facts else None
    return "" if error is None else f"{error:.2g}"


def latency_text(row: Row) -> str:
    slowdown = row.facts.slowdown if row.facts else None
    return "" if slowdown is None else f"{slowdown:.2f}"


COLUMNS: Mapping[str, Callable[[Row], str]] = {
    "model": lambda row: row.id,
    "verdict": lambda row: row.verdict.value,
    "opset": lambda row: str(row.opset or ""),
    "provider": lambda row: (row.facts.provider if row.facts else None) or row.task.item.provider,
    "nodes": lambda row: str(row.facts.nodes) if row.facts else "",
    "size": lambda row: size(row.facts.bytes) if row.facts else "",
    "error": error_text,
    "latency": latency_text,
    "time": lambda row: "from cache" if row.cached else f"{row.seconds:.1f} s",
}
NUMBERS = frozenset(("opset", "nodes", "size", "error", "latency", "time"))


def print_table(rows: Sequence[Row]) -> None:
    """`error` is in parts of the budget, `latency` in parts of eager PyTorch's; a column that is empty is left out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = {name: [cell(row) for row in rows] for name, cell in COLUMNS.items()}
    told = [name for name in COLUMNS if any(cells[name])]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in told:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
    for number, row in enumerate(rows):
        texts = [
            Text(terminal(one_line(cells[name][number])), style=STYLES[row.verdict] if name == "verdict" else "")
            for name in told
        ]
        table.add_row(*texts)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)
    console.print(table)
    console.print(Text(counted(rows), style="bold"))


def counted(rows: Sequence[Row]) -> str:
    """7 passed, 1 failed (6 from the cache)."""
    counts = Counter(row.verdict for row in rows)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]) or "nothing checked"
    cached = sum(row.cached for row in rows)
    return f"{said} ({cached} from the cache)" if cached else said
