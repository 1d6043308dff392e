"""A run of checks: what has not changed is taken from the cache, the others by the workers that were asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from fxport.diagnostics.paths import write_whole
from fxport.diagnostics.report import FailOn
from fxport.exporter.checks.cache import Cache, environment
from fxport.exporter.checks.cluster import Cluster
from fxport.exporter.checks.executors import Executor, Workers
from fxport.exporter.checks.items import Task
from fxport.exporter.checks.pool import Outcome, Pool, Stage
from fxport.exporter.checks.rows import Row, Verdict, row_of
from fxport.exporter.sources.usage import UsageError

OUTPUT = ".fxport"
"""The folder of models and cache, beside the manifest."""


def prepare(output: Path) -> None:
    """Make the folder of models and cache, which git is told to ignore. Raises UsageError where it cannot be made."""
    try:
        (output / "models").mkdir(parents=True, exist_ok=True)
        ignore = output / ".gitignore"
        if not ignore.exists():
            write_whole(ignore, "*\n")
    except OSError as error:
        raise UsageError(f"--output '{output}' cannot be written: {error.strerror}; name another folder.") from error


def outcomes(
    tasks: Sequence[Task], manifest: Path, output: Path, fail_on: FailOn, workers: Workers, *, cached: bool = True
) -> Iterator[Row | Stage]:
    """Yield a row for each task: at once for what has not changed, then the others as they are done.

    Args:
        tasks: The checks.
        manifest: The file that they are from; models are loaded beside it.
        output: The folder of models and cache, see `prepare`.
        fail_on: From which level on a finding fails a row.
        workers: Where the checks run.
        cached: Whether a check that has not changed is taken from the cache.
    """
    cache = Cache(output / "cache", manifest.parent, environment())
    waiting = []
    for task in tasks:
        held = cache.get(task.item) if cached else None
        if held is None:
            waiting.append(task)
        else:
            yield row_of(Outcome(task, held, None, held["seconds"]), manifest, fail_on, cached=True)
    with closing(run_by(workers, waiting, manifest.parent, output)) as events:
        for event in events:
            if isinstance(event, Stage):
                yield event
                continue
            row = row_of(event, manifest, fail_on)
            yield row
            if event.result is not None and row.verdict is not Verdict.NOT_CHECKED:
                keep(cache, event)


def run_by(
    workers: Workers, tasks: Sequence[Task], folder: Path, output: Path
) -> Generator[Outcome | Stage, None, None]:
    """Return the outcomes of tasks, by the executor that was asked for."""

    def path_of(task: Task) -> Path:
        return output / "models" / f"{task.item.id}.onnx"

    if workers.executor is Executor.RAY and tasks:
        return Cluster(folder, path_of, workers.address).run(tasks, workers.jobs)
    return Pool(folder, path_of).run(tasks, workers.jobs or default_jobs())


def keep(cache: Cache, outcome: Outcome) -> None:
    """Keep an outcome; a cache that cannot be written costs time in the next run, and nothing in this one."""
    try:
        cache.put(outcome.task.item, {**(outcome.result or {}), "seconds": outcome.seconds})
    except OSError as error:
        print(f"fxport: '{outcome.task.item.id}' is not kept in the cache: {error.strerror}", file=sys.stderr)


def default_jobs() -> int:
    """Return half of the cores that this process may use: torch and ONNX Runtime have threads of their own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2)
