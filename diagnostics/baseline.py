"""Two logs → what is new, what is unchanged, what is gone. Identities are compared, so a moved line changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fxport.diagnostics.log import Revision
from fxport.diagnostics.model import BaselineState, Finding, SuppressedBy


def against(old: Sequence[Finding]) -> Revision:
    """A revision for `Log.revise`: each finding with its state since `old`, then those of `old` that are gone.

    A finding that `old` suppresses outside the source stays suppressed.
    """
    known = {finding.identity: finding for finding in old if finding.baseline is not BaselineState.ABSENT}

    def compare(findings: Sequence[Finding]) -> Sequence[Finding]:
        now = {finding.identity for finding in findings}
        absent = [_absent(finding) for identity, finding in known.items() if identity not in now]
        return [*(_compared(finding, known) for finding in findings), *absent]

    return compare


def _compared(finding: Finding, known: Mapping[str, Finding]) -> Finding:
    before = known.get(finding.identity)
    if before is None:
        return replace(finding, baseline=BaselineState.NEW)
    kept = before.suppression if before.suppression and before.suppression.kind is SuppressedBy.BASELINE else None
    return replace(finding, baseline=BaselineState.UNCHANGED, suppression=finding.suppression or kept)


def _absent(finding: Finding) -> Finding:
    return replace(finding, baseline=BaselineState.ABSENT)
