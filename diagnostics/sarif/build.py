"""Log → sarif_om.SarifLog: the run around the results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fxport.diagnostics import rule_pages, rules
from fxport.diagnostics.escape import visible
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import BaselineState, Finding, Level, Place, Rule
from fxport.diagnostics.paths import project_path, quoted, root_for
from fxport.diagnostics.sarif import About, Profile
from fxport.diagnostics.sarif.messages import message_strings
from fxport.diagnostics.sarif.objects import om
from fxport.diagnostics.sarif.provenance import provenance_of
from fxport.diagnostics.sarif.results import Where, result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
TOOL = "fxport"
HOME = "https://fxport.readthedocs.io"
LONGEST_DESCRIPTION = 1024
NOWHERE = Place("<model>", 1)  # where neither a finding nor the caller knows of any file
_SECRET = re.compile(r"(?i)((?:token|secret|password|passwd|key)[\w-]*[= ])(?:'[^']*'|\S)+|(?<=://)[^/@\s]+(?=@)")


def document(log: Log, profile: Profile, default_place: Place | None, about: About) -> Any:  # Any: no types in sarif_om
    """One run in one log."""
    findings = _wanted(log.findings, profile)
    root = about.root or root_for([finding.place.path for finding in findings if finding.place])
    used = {finding.rule.id: finding.rule for finding in findings}
    table = [used[rule_id] for rule_id in sorted(used)]
    indices = {rule.id: index for index, rule in enumerate(table)}
    fallback = default_place or next((finding.place for finding in findings if finding.place), NOWHERE)
    where = Where(root, fallback)
    results = [result(finding, indices[finding.rule.id], where) for finding in findings]
    _level_out(results)
    run = om.Run(
        tool=om.Tool(driver=_driver(table, findings, profile, about)),
        automation_details=om.RunAutomationDetails(id=f"{TOOL}/{_known_as(about.model)}/{about.run}"),
        column_kind="utf16CodeUnits",
        invocations=[_invocation(log, about)],
        original_uri_base_ids={"SRCROOT": om.ArtifactLocation(uri=root_uri(root))},
        results=results,
        version_control_provenance=_provenance(root),
    )
    return om.SarifLog(version="2.1.0", schema_uri=SCHEMA, runs=[run])


def _known_as(model: str) -> str:
    """Return the name of a run: for a file its path in the project, independent of the working directory."""
    where, colon, name = model.rpartition(":")
    if colon and where.endswith(".py"):
        return f"{project_path(where)}:{name}"
    return project_path(model) if Path(model).suffix and Path(model).exists() else model


def root_uri(root: Path) -> str:
    """The root as an absolute URI that ends in a slash."""
    path = quoted(root.as_posix()).rstrip("/")
    return f"file://{'' if path.startswith('/') or not path else '/'}{path}/"


def _wanted(findings: Sequence[Finding], profile: Profile) -> Sequence[Finding]:
    if profile.only_open:
        findings = [finding for finding in findings if finding.is_open]
    if profile.limit is not None and len(findings) > profile.limit:
        findings = sorted(findings, key=lambda finding: -finding.level.rank)[: profile.limit]
    return findings


def _level_out(results: Sequence[Any]) -> None:
    """§3.27.23 and §3.27.24: suppressions and baseline states are on all results of a run or on none."""
    if any(item.suppressions for item in results):
        for item in results:
            item.suppressions = item.suppressions or []
    if any(item.baseline_state for item in results):
        for item in results:
            item.baseline_state = item.baseline_state or BaselineState.NEW.value


def _driver(table: Sequence[Rule], findings: Sequence[Finding], profile: Profile, about: About) -> Any:
    return om.ToolComponent(
        name=TOOL,
        full_name="fxport, PyTorch to ONNX",
        organization=TOOL,
        version=about.version or _version(),
        semantic_version=about.version or _version(),
        information_uri=HOME,
        rules=[_descriptor(rule, [f for f in findings if f.rule.id == rule.id], profile) for rule in table],
    )


def _descriptor(rule: Rule, findings: Sequence[Finding], profile: Profile) -> Any:
    known = rule.id in rules.RULES
    meaning = rule_pages.section(rule, "What it means") if known else rule.message
    worst = max((finding.level.rank for finding in findings), default=Level.NOTE.rank)
    page = rule_pages.page(rule) if known and worst > Level.NOTE.rank else None  # that of a note is a link away
    in_help = profile.pages_in_help and (worst == Level.ERROR.rank or not profile.pages_in_description)
    advice = rule_pages.hint(rule) if known else rule.message
    return om.ReportingDescriptor(
        id=rule.id,
        name=rule.name,
        short_description=om.MultiformatMessageString(text=_sentence(meaning)),
        full_description=om.MultiformatMessageString(
            text=meaning[:LONGEST_DESCRIPTION], markdown=page if profile.pages_in_description else None
        ),
        help=om.MultiformatMessageString(text=advice or meaning, markdown=page if in_help else None),
        help_uri=rule_pages.help_uri(rule),
        message_strings={
            name: om.MultiformatMessageString(text=text) for name, text in message_strings(rule, findings).items()
        },
        default_configuration=om.ReportingConfiguration(level=rule.level.value),
        properties={"tags": ["onnx", "pytorch", rules.stage(rule)], "precision": "very-high"},
    )


def _invocation(log: Log, about: About) -> Any:
    failed = about.failure is not None
    return om.Invocation(
        execution_successful=not failed,
        command_line=_redacted(about.command) or None,
        start_time_utc=_utc(about.started),
        end_time_utc=_utc(about.ended),
        tool_execution_notifications=[om.Notification(message=om.Message(text=about.failure), level="error")]
        if failed
        else None,
        properties=_made(log) or None,
    )


def _made(log: Log) -> Mapping[str, object]:
    """Return the seconds of each stage, and the nodes and bytes of the model's modules."""
    modules = {visible(part.name): {"nodes": part.nodes, "bytes": part.bytes} for part in log.parts}
    return ({"seconds": _seconds(log.stages)} if log.stages else {}) | ({"modules": modules} if modules else {})


def _seconds(stages: Sequence[tuple[str, float]]) -> Mapping[str, float]:
    total: dict[str, float] = {}
    for name, seconds in stages:
        total[name] = round(total.get(name, 0.0) + seconds, 6)
    return total


def _provenance(root: Path) -> Any:
    found = provenance_of(root)
    if found is None:
        return None
    return [
        om.VersionControlDetails(
            repository_uri=found.repository,
            revision_id=found.revision,
            branch=found.branch,
            mapped_to=om.ArtifactLocation(uri_base_id="SRCROOT"),
        )
    ]


def _redacted(command: Sequence[str]) -> str:
    """One line without secrets and without the name of the user's home."""
    line = _SECRET.sub(lambda match: (match[1] or "") + "***", shlex.join(command))
    home = str(Path.home())
    return line.replace(home + "/", "~/") if len(home) > 1 else line


def _utc(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".") + "."


@cache
def _version() -> str:
    try:
        return metadata.version(TOOL)
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "0.0.0"
