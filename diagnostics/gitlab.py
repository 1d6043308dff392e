"""GitLab's code quality report: a JSON list that merge requests show at their lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote

from fxport.diagnostics.escape import one_line
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Finding, Level, Place
from fxport.diagnostics.paths import root_for, uri_of
from fxport.diagnostics.text import advice_of

SEVERITIES: Mapping[Level, str] = MappingProxyType({Level.ERROR: "major", Level.WARNING: "minor", Level.NOTE: "info"})
NOWHERE = Place("<model>", 1)


def render(log: Log, *, root: Path | None = None) -> str:
    """The open findings. Fingerprints are the identities, made unique where two findings share one."""
    findings = [finding for finding in log.findings if finding.is_open]
    base = root or root_for([finding.place.path for finding in findings if finding.place])
    seen: dict[str, int] = {}
    entries = [_entry(finding, base, seen) for finding in findings]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _entry(finding: Finding, root: Path, seen: dict[str, int]) -> dict[str, object]:
    place = finding.place or NOWHERE
    uri, relative = uri_of(place.path, root)
    identity = finding.identity or sha256(finding.message.encode("utf-8", "backslashreplace")).hexdigest()
    seen[identity] = seen.get(identity, 0) + 1
    advice = advice_of(finding)
    return {
        "description": one_line(finding.message + (f" What to do: {advice}" if advice else "")),
        "check_name": f"{finding.rule.id} {finding.rule.name}",
        "fingerprint": identity if seen[identity] == 1 else f"{identity}-{seen[identity]}",
        "severity": SEVERITIES[finding.level],
        "location": {
            "path": one_line(unquote(uri) if relative else place.path),
            "lines": {"begin": max(1, place.line)},
        },
    }
