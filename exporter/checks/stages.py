"""Stage at which a check failed: from the rules of its findings, and from the last stage that it reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fxport.diagnostics import Level
from fxport.exporter.checks.rows import Row

STAGES = ("load", "capture", "normalize", "lower", "finish", "save", "reference", "validate")
OF_RULES: Mapping[str, str] = {
    "1": "capture",
    "2": "capture",
    "3": "lower",
    "4": "lower",
    "5": "validate",
    "6": "validate",
}
"""The stage that a rule belongs to, by the thousands of its id; the others may come from any."""


def stages_of(row: Row) -> Sequence[tuple[str, str]]:
    """Each stage with "passed", "failed" or "not run"."""
    ran = {name for name, _ in row.stages}
    errors = [finding for finding in row.findings if finding.level is Level.ERROR]
    failed = {OF_RULES[finding.rule.id[3]] for finding in errors if finding.rule.id[3] in OF_RULES}
    if row.facts is None and not failed & ran:
        failed = {next((name for name in reversed(STAGES) if name in ran), STAGES[0])}
    return [(name, "failed" if name in failed else "passed" if name in ran else "not run") for name in STAGES]
