"""Sources exported again whenever a file that they depend on is saved.

One worker stays warm, with torch and the libraries that the sources use; each export is a fork of it, which imports
the user's own modules anew. What is watched is what an export has read: modules, samples, weights.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fxport.diagnostics import Level
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.paths import stamp_of
from fxport.diagnostics.report import FailOn
from fxport.exporter.checks.group import FORKS
from fxport.exporter.checks.items import Item, Task
from fxport.exporter.checks.pool import Outcome, Pool, Worker
from fxport.exporter.checks.rows import Row, row_of_source
from fxport.exporter.sources.source import short_name
from fxport.exporter.sources.usage import UsageError

POLL = 0.05
"""Seconds between two looks at the files; a change counts when the next look finds the files as they were."""

CLOCK = 10_000_000
"""Nanoseconds by which the clock of a file system may be behind that of the process."""

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of exports: a row for each source, the ids of those that were exported in it, and what is watched."""

    rows: Sequence[Row]
    renewed: Collection[str]
    files: Collection[str]


@dataclass(slots=True)
class _Watched:
    """A source's outcome, and the files that it depends on as they were when it was exported.

    `modules` are the names of Python files in the folders of `files`, for a source that could not be made: the file
    that it lacks may come to be there. None for another source.
    """

    outcome: Outcome
    files: Mapping[str, Stamp]
    modules: Collection[str] | None = None
    stale: bool = field(default=False)

    def has_changed(self) -> bool:
        return (
            self.stale
            or any(stamp_of(Path(path)) != stamp for path, stamp in self.files.items())
            or (self.modules is not None and _modules_near(self.files) != self.modules)
        )


def turns(
    tasks: Sequence[Task], folder: Path, path_of: Callable[[Task], Path], begun: Callable[[Sequence[str]], None]
) -> Generator[Turn, None, None]:
    """Export all tasks, then those whose files change, for as long as the caller takes turns.

    Args:
        tasks: What is exported; their items have ids of their own.
        folder: The current folder of the exports.
        path_of: The ONNX file of a task.
        begun: Called with the ids of a turn before it is begun.

    Yields:
        A turn when its exports are done. Closing the iterator ends the worker.
    """
    pool = Pool(folder, path_of)
    watched: dict[str, _Watched] = {}
    due = tasks
    with Worker(pool).kept() as worker:
        while True:
            begun([task.item.id for task in due])
            pool.turn += 1
            if not FORKS:  # it has imported the user's modules itself
                worker.restart()
            for task in due:
                watched[task.item.id] = _exported(worker, task, folder, watched.get(task.item.id))
            while not pool.events.empty():  # of stages, which nobody here is told of
                pool.events.get()
            rows = [row_of_source(watched[task.item.id].outcome, folder, FailOn.ERROR) for task in tasks]
            files = {path for each in watched.values() for path in each.files}
            yield Turn(rows, [task.item.id for task in due], files)
            worker.prepare()
            due = _changed(tasks, watched)


def _exported(worker: Worker, task: Task, folder: Path, before: _Watched | None) -> _Watched:
    """One export, and what to watch for the next. A file that was saved while it ran makes it stale."""
    start = time.time_ns() - CLOCK
    outcome = worker.check(task)
    result = outcome.result
    failed = result is None or result["mistake"] is not None
    paths = {str((folder / path).resolve()) for path in named_by(task.item) if (folder / path).is_file()}
    paths |= set(result["files"]) if result else set()
    if failed and before is not None:  # it may have ended before it read all of them
        paths |= before.files.keys()
    files = {path: stamp_of(Path(path)) for path in sorted(paths)}
    stale = any(stamp is not None and stamp[1] >= start for path, stamp in files.items() if path.endswith(".py"))
    return _Watched(outcome, files, _modules_near(files) if failed else None, stale)


def named_by(item: Item) -> Sequence[str]:
    """The files that an item names, also those that are not there."""
    code = item.file if item.file.endswith(".py") else item.source
    return [*item.samples, code, *([item.weights] if item.weights else [])]


def _modules_near(files: Iterable[str]) -> Collection[str]:
    """The Python files in the folders of files."""
    return {str(path) for folder in {Path(each).parent for each in files} for path in folder.glob("*.py")}


def _changed(tasks: Sequence[Task], watched: Mapping[str, _Watched]) -> Sequence[Task]:
    """Wait until files have changed and are no longer being written; returns the tasks that depend on them."""
    while not any(each.has_changed() for each in watched.values()):
        time.sleep(POLL)
    seen: Mapping[str, Stamp] = {}
    while True:
        now = {path: stamp_of(Path(path)) for each in watched.values() for path in each.files}
        if now == seen:
            return [task for task in tasks if watched[task.item.id].has_changed()]
        seen = now
        time.sleep(POLL)


def ids_of(sources: Sequence[str]) -> list[str]:
    """A name for each source: short, and with its file where others have that one. Raises UsageError for one twice."""
    names = [short_name(source) for source in sources]
    counts = Counter(names)
    full = [f"{Path(source.rpartition(':')[0]).stem}-{name}" for source, name in zip(sources, names, strict=True)]
    ids = [whole if counts[name] > 1 else name for name, whole in zip(names, full, strict=True)]
    for name, source in zip(ids, sources, strict=True):
        if ids.count(name) > 1:
            raise UsageError(f"SOURCE '{source}' would be '{name}' like another one; watch them in two terminals.")
    return ids


def said_of(row: Row, path: Path) -> str:
    """One line about one source: its file, or the errors."""
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    if row.facts is None:
        errors = sum(each.is_open and each.level is Level.ERROR for each in row.findings)
        old = f"; '{shown}' is of an earlier save" if path.exists() else ""
        return f"{row.id}: no model, {plural(errors, 'error')}{old}"
    checked = f"{row.verdict} on {row.facts.provider}" if row.facts.provider else "not validated"
    seconds = sum(each for _, each in row.stages)
    return f"{row.id}: {shown}, {plural(row.facts.nodes, 'node')}, {checked}, {seconds:.1f} s"


def reason_of(row: Row) -> str:
    return next((finding.message for finding in row.findings), f"'{row.task.item.source}' has none.")
