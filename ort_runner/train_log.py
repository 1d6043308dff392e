"""Log of a training session: one row of a CSV file and one line of progress for each step."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from fxport.diagnostics.paths import write_whole
from fxport.ort_runner.session import Port
from fxport.ort_runner.train_inputs import RefusedInput

STEP, SECONDS = "step", "seconds"
"""Columns of every log: the number of the step from 1 on, and the time that it took."""

Row = Mapping[str, float]
"""Values of one step by the name of the column, without its number."""


class Reporter(Protocol):
    """Something that is told of each step."""

    def __call__(self, step: int, row: Row) -> None: ...


def scalars_of(outputs: Iterable[Port], steps: int) -> list[str]:
    """The outputs that the model declares to be one number a step: a tensor of as many values as a batch is none."""
    axes = () if steps == 1 else (steps,)
    return [port.name for port in outputs if port.shape in (axes, (*axes, 1))]


def rows_of(results: Mapping[str, np.ndarray], scalars: Iterable[str], steps: int, seconds: float) -> list[Row]:
    """These outputs of a run as a row for each of its steps."""
    numbers = {name: np.asarray(results[name], np.float64).reshape(-1) for name in scalars}
    return [
        {**{name: float(values[index]) for name, values in numbers.items()}, SECONDS: seconds / steps}
        for index in range(steps)
    ]


@contextmanager
def reporters(
    log: str | os.PathLike[str] | None, columns: Sequence[str], done: int, *, progress: bool, total: int | None
) -> Iterator[Reporter]:
    """A reporter to a CSV file, to a line of progress, to both or to none. `done` steps came before.

    `columns` are those of each row. Raises RefusedInput for a file with others.
    """
    with ExitStack() as stack:
        tell: list[Reporter] = []
        if log is not None:
            tell.append(stack.enter_context(_csv(Path(log), [STEP, *columns], done)))
        if progress:
            tell.append(stack.enter_context(_progress(done, total)))

        def report(step: int, row: Row) -> None:
            for each in tell:
                each(step, row)

        yield report


@contextmanager
def _csv(path: Path, columns: list[str], done: int) -> Iterator[Reporter]:
    """Rows behind those of the first `done` steps; later ones, of a run that was broken off, and a half row go."""
    header, *kept = _rows_until(path, done) or [columns]
    if header != columns:
        raise RefusedInput(f"'{path}' has the columns {header}, this run {columns}; name another file")
    write_whole(path, _text([columns, *kept]))
    with path.open("a", newline="", encoding="utf-8") as file:

        def report(step: int, row: Row) -> None:
            file.write(_text([[str(step), *(repr(row[name]) for name in columns[1:])]]))
            file.flush()

        yield report


def _text(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _rows_until(path: Path, done: int) -> list[list[str]]:
    if not path.exists():
        return []
    try:
        whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
    except UnicodeDecodeError as error:
        raise RefusedInput(f"'{path}' is no log of a training session: it is no text") from error
    rows = [row for row in csv.reader(io.StringIO(whole)) if row]
    if rows and rows[0][0] != STEP:
        raise RefusedInput(f"'{path}' is no log of a training session: its first column is not '{STEP}'")
    if not all(row[0].isdecimal() and len(row) == len(rows[0]) for row in rows[1:]):
        raise RefusedInput(f"'{path}' is no log of a training session: it has rows without a number of the step")
    return [*rows[:1], *(row for row in rows[1:] if int(row[0]) <= done)]


@contextmanager
def _progress(done: int, total: int | None) -> Iterator[Reporter]:
    """A line with the number of the step, and the outputs that it gave."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(bar_width=20), TimeRemainingColumn()) as shown:
        task = shown.add_task("", total=total, completed=done)

        def report(step: int, row: Row) -> None:
            told = "  ".join(
                f"{name} {value:.5g}" for name, value in row.items() if "/" not in name and name != SECONDS
            )
            shown.update(task, completed=step, description=f"step {step}/{total or '?'}  {told}")

        yield report
