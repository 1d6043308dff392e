"""The whole of `fxport check`: manifest → items → rows → reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fxport.diagnostics import rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.paths import write_whole
from fxport.diagnostics.report import FailOn
from fxport.exporter.checks import init, lock
from fxport.exporter.checks.cache import Cache, environment
from fxport.exporter.checks.cluster import Cluster
from fxport.exporter.checks.items import Task, tasks_of
from fxport.exporter.checks.manifest import find, load
from fxport.exporter.checks.pool import Outcome, Pool, Stage
from fxport.exporter.checks.rows import Row, Verdict, row_of
from fxport.exporter.cli.check import Executor
from fxport.exporter.cli.check.progress import Progress
from fxport.exporter.cli.check.report import print_rows, write_files
from fxport.exporter.cli.exit_codes import CLEAN, FAULT, FINDINGS, INTERRUPTED
from fxport.exporter.cli.output import require_folder
from fxport.exporter.cli.reporting import Reporting
from fxport.exporter.sources.usage import UsageError

OUTPUT = ".fxport"


@dataclass(frozen=True, slots=True)
class Request:
    """One command line of `fxport check`, as it was typed."""

    models: Sequence[str]
    manifest: Path | None
    jobs: int | None
    executor: Executor
    address: str | None
    cached: bool
    update: bool
    output: Path | None
    reporting: Reporting


def written_manifest(folder: Path) -> str:
    """`--init`; returns what to say."""
    path, found = init.write(folder)
    return f"{path.name}: {plural(len(found), 'model')}. Read it, then run `fxport check`."


def check(request: Request) -> int:
    """Check all items, print and write the reports, and return the exit code."""
    manifest = request.manifest or find(Path.cwd())
    folder = manifest.resolve().parent
    models = load(manifest)
    report = request.reporting.with_settings("check", "", models, folder)
    tasks = tasks_of(models, request.models)
    output = (request.output or folder / OUTPUT).resolve()
    require_folder(output, "--output")
    baseline = folder / lock.NAME
    held = lock.read(baseline)
    prepare(output)
    cache = Cache(output / "cache", folder, environment())
    rows: dict[str, Row] = {}
    code = None
    try:
        with Progress(len(tasks)) as progress:
            for event in outcomes(tasks, manifest.resolve(), output, cache, request, report.fail_on):
                if isinstance(event, Stage):
                    progress.show(event)
                else:
                    rows[event.id] = event
                    progress.done(event)
    except KeyboardInterrupt:
        print("fxport: interrupted", file=sys.stderr)
        code = INTERRUPTED
    ordered = [rows[task.item.id] for task in tasks if task.item.id in rows]
    if not request.update:
        ordered = [lock.compared(row, held, report.fail_on) for row in ordered]
    told = [row.told(report.levels, report.fail_on) for row in ordered]
    print_rows(told, report.format)
    try:
        write_files(told, report)
        if request.update:
            known = [task.item.id for task in tasks_of(models)]
            lock.write(baseline, lock.updated(held, ordered, known))
            print(f"{baseline.name} written: {plural(len(ordered), 'check')}", file=sys.stderr)
    except OSError as error:
        raise UsageError(f"'{error.filename}' cannot be written: {error.strerror}; name another place.") from error
    return exit_code(told) if code is None else code


def prepare(output: Path) -> None:
    """The folder of models and cache, which git is told to ignore. Raises UsageError where it cannot be made."""
    try:
        (output / "models").mkdir(parents=True, exist_ok=True)
        ignore = output / ".gitignore"
        if not ignore.exists():
            write_whole(ignore, "*\n")
    except OSError as error:
        raise UsageError(f"--output '{output}' cannot be written: {error.strerror}; name another folder.") from error


def outcomes(
    tasks: Sequence[Task], manifest: Path, output: Path, cache: Cache, request: Request, fail_on: FailOn
) -> Iterator[Row | Stage]:
    """A row for each task: at once for what has not changed, then the others as they are done."""
    waiting = []
    for task in tasks:
        held = cache.get(task.item) if request.cached else None
        if held is None:
            waiting.append(task)
        else:
            yield row_of(Outcome(task, held, None, held["seconds"]), manifest, fail_on, cached=True)
    with closing(run_by(request, waiting, manifest.parent, output)) as events:
        for event in events:
            if isinstance(event, Stage):
                yield event
                continue
            row = row_of(event, manifest, fail_on)
            yield row
            if event.result is not None and row.verdict is not Verdict.NOT_CHECKED:
                keep(cache, event)


def run_by(
    request: Request, tasks: Sequence[Task], folder: Path, output: Path
) -> Generator[Outcome | Stage, None, None]:
    """The outcomes of tasks, by the executor that was asked for."""

    def path_of(task: Task) -> Path:
        return output / "models" / f"{task.item.id}.onnx"

    if request.executor is Executor.RAY and tasks:
        return Cluster(folder, path_of, request.address).run(tasks, request.jobs)
    return Pool(folder, path_of).run(tasks, request.jobs or default_jobs())


def keep(cache: Cache, outcome: Outcome) -> None:
    """A cache that cannot be written costs time in the next run, and nothing in this one."""
    try:
        cache.put(outcome.task.item, {**(outcome.result or {}), "seconds": outcome.seconds})
    except OSError as error:
        print(f"fxport: '{outcome.task.item.id}' is not kept in the cache: {error.strerror}", file=sys.stderr)


def default_jobs() -> int:
    """Half of the cores that this process may use: torch and ONNX Runtime have threads of their own."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // 2)


def exit_code(rows: Sequence[Row]) -> int:
    """FAULT where fxport itself failed, FINDINGS where a row is not as it should be, else CLEAN."""
    if any(finding.rule == rules.INTERNAL_ERROR for row in rows for finding in row.findings):
        return FAULT
    return FINDINGS if any(row.verdict in (Verdict.FAILED, Verdict.NOT_CHECKED) for row in rows) else CLEAN
