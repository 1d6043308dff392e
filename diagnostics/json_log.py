"""The format for programs: one JSON document, simpler than SARIF. New keys may come; those here stay."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict

from fxport.diagnostics.escape import visible
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Finding, Place

VERSION = 1


def render(log: Log) -> str:
    """All findings, suppressed ones too, with the times of the stages and what the modules became."""
    document = {
        "version": VERSION,
        "worst": log.worst,
        "findings": [_finding(finding) for finding in log.findings],
        "stages": [{"name": name, "seconds": round(seconds, 6)} for name, seconds in log.stages],
        "modules": [asdict(part) for part in log.parts],
    }
    return json.dumps(_strict(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finding(finding: Finding) -> dict[str, object]:
    return {
        "rule": finding.rule.id,
        "name": finding.rule.name,
        "level": finding.level,
        "message": finding.message,
        "place": _place(finding.place),
        "facts": finding.facts,
        "count": finding.count,
        "identity": finding.identity,
        "related": [_place(place) for place in finding.related],
        "steps": [{"text": step.text, "place": _place(step.place)} for step in finding.steps],
        "fixes": [asdict(fix) for fix in finding.fixes],
        "suppression": asdict(finding.suppression) if finding.suppression else None,
        "baseline": finding.baseline,
    }


def _place(place: Place | None) -> dict[str, object] | None:
    if place is None:
        return None
    fields = asdict(place)
    del fields["call"], fields["captured"]  # how columns and steps were found
    return fields


def _strict(value: object) -> object:
    """The value in strict JSON that any program can hold: no NaN, no lone surrogates, no unseen characters."""
    if isinstance(value, Mapping):
        return {visible(str(key)): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return visible(value) if isinstance(value, str) else value
