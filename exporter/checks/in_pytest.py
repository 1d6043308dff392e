"""A manifest as a file of tests: one for each check of `fxport check`, made in pytest's own process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fxport.diagnostics.report import Report
from fxport.diagnostics.text import render
from fxport.exporter.checks.items import Task, tasks_of
from fxport.exporter.checks.manifest import load
from fxport.exporter.checks.merge import log_of
from fxport.exporter.checks.pool import Outcome, Pool
from fxport.exporter.checks.pytest_plugin import LOGS
from fxport.exporter.checks.report_formats import GOOD
from fxport.exporter.checks.rows import EXPECTED, Row, Verdict, row_of
from fxport.exporter.checks.work import result_of
from fxport.exporter.sources.settings import report_of
from fxport.exporter.sources.usage import UsageError

MODULES = pytest.StashKey[dict[Path, ModuleType]]()


class ManifestFailed(Exception):
    """The text of the findings."""


class ManifestFile(pytest.File):
    """Collects a manifest: its checks in order."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            manifest = load(self.path)
            tasks = tasks_of(manifest)
            report = report_of(manifest, self.path.parent, "check")
        except UsageError as error:
            raise self.CollectError(str(error)) from error
        for task in tasks:
            yield ManifestItem.from_parent(self, name=task.item.id, task=task, report=report)


class ManifestItem(pytest.Item):
    """One model at one opset on one provider. Time limits and bounds of memory are those of `fxport check` only."""

    def __init__(self, *, task: Task, report: Report, **given: Any) -> None:  # Any: pytest's own
        super().__init__(**given)
        self.task, self.report = task, report

    def runtest(self) -> None:
        row = self.row()
        log = log_of(row.findings)
        self.stash.setdefault(LOGS, []).append(log)
        if row.verdict is Verdict.EXPECTED:
            pytest.xfail(f"{', '.join(sorted({each.rule.id for each in row.findings}))} {EXPECTED}")
        if row.verdict is Verdict.NOT_VALIDATED:
            pytest.skip(f"not validated: {', '.join(sorted({each.rule.id for each in row.findings}))}")
        if row.verdict not in GOOD:
            raise ManifestFailed(render(log))

    def row(self) -> Row:
        """The check, in the folder of the manifest. Modules of one file are imported once a session."""
        if self.task.item.ranks > 1:
            return self.told(self.of_ranks())
        folder, start = self.path.parent, time.perf_counter()
        modules = self.session.stash.setdefault(MODULES, {})
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as made:
            patch.chdir(folder)
            result = result_of(self.task.item, Path(made) / "model.onnx", modules, lambda _: None)
        return self.told(Outcome(self.task, result, None, time.perf_counter() - start))

    def of_ranks(self) -> Outcome:
        """The check of a model that several processes hold: in a process for each."""
        with tempfile.TemporaryDirectory() as made:
            pool = Pool(self.path.parent.resolve(), lambda _: Path(made) / "model.onnx")
            with closing(pool.run([self.task], 1)) as events:
                return next(event for event in events if isinstance(event, Outcome))

    def told(self, outcome: Outcome) -> Row:
        """The row of an outcome, as the manifest wants to hear of it."""
        row = row_of(outcome, self.path, self.report.fail_on)
        return row.told(self.report.levels, self.report.fail_on)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # Any: pytest's own
        if isinstance(excinfo.value, ManifestFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.path.name}: {self.name}"
