"""Progress of the checks: live on a terminal, a line for each check elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fxport.exporter.checks.pool import Stage
from fxport.exporter.checks.rows import Row

if TYPE_CHECKING:
    import rich.progress


class Progress:
    """Shows stages and rows on standard error while its block runs; on a terminal it is wiped at the end.

    `quiet` shows nothing.
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self._total, self._count, self._quiet = total, 0, quiet
        self._bars: rich.progress.Progress | None = None
        self._running: dict[str, rich.progress.TaskID] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn())
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
            self._all = self._bars.add_task("checked", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def show(self, stage: Stage) -> None:
        """A check has come to a stage."""
        if self._bars is None:
            return
        name = stage.task.item.id
        if name not in self._running:
            self._running[name] = self._bars.add_task("", total=1)
        self._bars.update(self._running[name], description=f"  {name}: {stage.name}")

    def done(self, row: Row) -> None:
        """A check has ended."""
        self._count += 1
        if self._quiet:
            return
        if self._bars is None:
            took = "from cache" if row.cached else f"{row.seconds:.1f} s"
            print(f"[{self._count}/{self._total}] {row.id}: {row.verdict}, {took}", file=sys.stderr, flush=True)
            return
        self._bars.advance(self._all)
        if row.id in self._running:
            self._bars.remove_task(self._running.pop(row.id))
