"""Findings of several runs in one log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fxport.diagnostics import Finding, Log, Place


def merged(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Equal causes at equal places once, with the number of times that they were seen; open if any of them is."""
    table: dict[tuple[str, str, int], Finding] = {}
    for finding in findings:
        key = key_of(finding)
        seen = table.get(key)
        if seen is not None:
            kept = finding if finding.is_open and not seen.is_open else seen
            finding = replace(kept, count=seen.count + finding.count)
        table[key] = finding
    return list(table.values())


def key_of(finding: Finding) -> tuple[str, str, int]:
    """Cause and place of a finding, by which it is the same in several runs."""
    place = finding.place or Place("", 0)
    return finding.identity, place.path, place.line


def log_of(findings: Sequence[Finding]) -> Log:
    """A log that holds findings of other logs."""
    log = Log()
    log.revise(lambda _: tuple(findings))
    return log
