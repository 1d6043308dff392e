"""Rows: what became of each item, judged by the terms of the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from fxport.diagnostics import Finding, Fix, Level, Log, Place, SuppressedBy, Suppression, rules
from fxport.diagnostics.amounts import size
from fxport.diagnostics.policy import by_levels
from fxport.diagnostics.report import FailOn, at_least
from fxport.diagnostics.rules import RULES
from fxport.exporter.checks import facts
from fxport.exporter.checks.facts import Facts
from fxport.exporter.checks.items import Task
from fxport.exporter.checks.manifest import line_of_model
from fxport.exporter.checks.pool import Outcome
from fxport.exporter.checks.reasons import fixes_for
from fxport.exporter.sources.definition import definition_of

EXPECTED = "expected by the manifest"
UNVALIDATED = (rules.VALIDATION_SKIPPED, rules.NOT_REPEATABLE, rules.NOTHING_SHOWN, rules.NOT_COMPARABLE)
"""As warnings they say that the results were not, or not all, compared with PyTorch's."""


class Verdict(StrEnum):
    """Verdict of a check, from the best to the worst."""

    PASSED = "passed"
    EXPECTED = "expected"
    NOT_VALIDATED = "not validated"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Row:
    """One check. `facts` is None where there is no model; `cached` rows were not run, and `seconds` is what they took
    when they were."""

    task: Task
    facts: Facts | None
    findings: Sequence[Finding]
    stages: Sequence[tuple[str, float]]
    seconds: float
    cached: bool
    verdict: Verdict
    place: Place | None = None

    @property
    def id(self) -> str:
        return self.task.item.id

    @property
    def opset(self) -> int | None:
        """The opset of the file; that of the manifest, if any, where there is none."""
        return self.task.item.opset if self.facts is None else self.facts.opset

    def judged(self, fail_on: FailOn) -> Row:
        """The row with the verdict that its findings call for."""
        return replace(self, verdict=verdict_of(self.findings, fail_on))

    def told(self, levels: Mapping[str, Level | None], fail_on: FailOn) -> Row:
        """The row as the user wants to hear of it: the levels of rules are theirs, None for one that is not wanted."""
        return replace(self, findings=by_levels(levels)(self.findings)).judged(fail_on)


def row_of(outcome: Outcome, manifest: Path, fail_on: FailOn, *, cached: bool = False) -> Row:
    """The row of an outcome. Paths of the manifest are relative to its folder."""

    def at(key: str) -> Place:
        return Place(str(manifest), line_of_model(manifest, outcome.task.item.model, key))

    return _row(outcome, manifest.parent, at, fail_on, cached)


def row_of_source(outcome: Outcome, folder: Path, fail_on: FailOn) -> Row:
    """The row of an outcome that no manifest asked for: a mistake is at the line of the source that raised it."""
    raised = outcome.result["raised"] if outcome.result else None
    place = Place(*raised) if raised else place_of(outcome.task, outcome.result, folder)
    return _row(outcome, folder, lambda _: place, fail_on, False)


def _row(outcome: Outcome, folder: Path, at: Callable[[str], Place | None], fail_on: FailOn, cached: bool) -> Row:
    """The row of an outcome; `at` gives the place of a mistake, by the key of the manifest that is wrong."""
    from fxport.diagnostics.sarif.read import findings_of

    task, result = outcome.task, outcome.result
    place = place_of(task, result, folder)
    log = Log()
    found: Sequence[Finding] = findings_of(result["sarif"]) if result else ()
    known = facts.from_json(result["facts"]) if result and result["facts"] else None
    if outcome.reason is not None:
        fixes = fixes_for(outcome.reason)
        at_line = outcome.place or place
        log.report(rules.NOT_CHECKED, at=at_line, fixes=fixes, name=task.item.id, reason=outcome.reason)
    if result and result["mistake"]:
        key, reason = result["mistake"]
        tried = Fix(f"Correct it; `fxport export {task.item.source}` tries this model alone.")
        log.report(rules.NOT_CHECKED, at=at(key), fixes=[tried], name=task.item.id, reason=reason.rstrip("."))
    if known is not None:
        report_budgets(task, known, place, log)
    found = [*found, *log.findings]
    return Row(
        task=task,
        facts=known,
        findings=expected(found, task, place),
        stages=[(name, seconds) for name, seconds in result["stages"]] if result else (),
        seconds=outcome.seconds,
        cached=cached,
        verdict=Verdict.PASSED,
        place=place,
    ).judged(fail_on)


def place_of(task: Task, result: Mapping[str, Any] | None, folder: Path) -> Place | None:
    """Return the place of the model's definition, which findings about the whole model show."""
    if result and result["place"]:
        return Place(*result["place"])
    source = task.item.source
    where, _, name = source.rpartition(":")
    return definition_of(f"{folder / where}:{name}" if where.endswith(".py") else source)


def report_budgets(task: Task, known: Facts, place: Place | None, log: Log) -> None:
    """A finding for each budget that the model is over."""
    for name, value in costs(known).items():
        limit = getattr(task.terms.budget, name)
        if limit is not None and value is not None and value > limit:
            shown = SHOWN.get(name, "{:.3g}".format)
            what = f"{name} of {task.item.id}"
            log.report(rules.BUDGET_EXCEEDED, at=place, name=what, value=shown(value), limit=shown(limit))


def costs(known: Facts) -> dict[str, float | None]:
    """Return the costs that budgets limit, by their keys; no error where a sample failed, which has its own finding."""
    error = known.error if all(sample.passed for sample in known.samples) else None
    return {"bytes": known.bytes, "nodes": known.nodes, "latency": known.slowdown, "error": error}


SHOWN: Mapping[str, Any] = {"bytes": size, "nodes": str}


def expected(found: Sequence[Finding], task: Task, place: Place | None) -> Sequence[Finding]:
    """The findings with those that the manifest expects suppressed, and one for each rule that it expects in vain."""
    ids = {finding.rule.id for finding in found}
    log = Log()
    for rule_id in task.terms.expect:
        if rule_id not in ids:
            log.report(
                rules.EXPECTED_FINDING_ABSENT, at=place, name=f"{rule_id} {RULES[rule_id].name} of {task.item.id}"
            )
    known = Suppression(SuppressedBy.BASELINE, EXPECTED)
    kept = [replace(f, suppression=f.suppression or known) if f.rule.id in task.terms.expect else f for f in found]
    return [*kept, *log.findings]


def verdict_of(findings: Sequence[Finding], fail_on: FailOn) -> Verdict:
    """Open findings decide; a check that was not finished is worse than one that failed."""
    if any(finding.is_open and finding.rule == rules.NOT_CHECKED for finding in findings):
        return Verdict.NOT_CHECKED
    if any(finding.is_open and at_least(finding, fail_on) for finding in findings):
        return Verdict.FAILED
    if any(each.is_open and each.rule in UNVALIDATED and each.level is Level.WARNING for each in findings):
        return Verdict.NOT_VALIDATED
    hidden = (f.suppression for f in findings if at_least(f, fail_on))
    return Verdict.EXPECTED if any(each and each.reason == EXPECTED for each in hidden) else Verdict.PASSED
