"""The stages of a run as they pass, on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fxport.diagnostics import Log


@contextmanager
def progress_of(log: Log) -> Iterator[None]:
    """Show the log's stages on standard error while the block runs, and wipe them at its end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description:<10}"), BarColumn(24), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:

        def show(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                for finished in tasks.values():
                    bars.update(finished, total=1, completed=1)
                tasks[stage] = bars.add_task(stage, total=None)
            if total:
                bars.update(tasks[stage], completed=done, total=total)

        log.progress = show
        try:
            yield
        finally:
            log.progress = None
