"""Finding → sarif_om.Result."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from fxport.diagnostics import source
from fxport.diagnostics.calls import cut
from fxport.diagnostics.escape import visible
from fxport.diagnostics.model import Edit, Finding, Fix, Place, Step
from fxport.diagnostics.paths import uri_of
from fxport.diagnostics.sarif.linehash import line_hashes
from fxport.diagnostics.sarif.messages import message_parts
from fxport.diagnostics.sarif.objects import om, to_dict

IDENTITY = "fxportIdentity/v1"
SUGGESTIONS = "suggestions"
CONTEXT = 2  # lines shown above and below
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://fxport.readthedocs.io/rules")
_RESERVED = frozenset(("tags", SUGGESTIONS))


@dataclass(frozen=True, slots=True)
class Where:
    """The root of URIs, and the place of results that have none: GitHub refuses a file for one result without."""

    root: Path
    fallback: Place


def result(finding: Finding, rule_index: int, where: Where) -> Any:  # Any: sarif_om has no types
    """One result. Its primary location is always physical; its properties are the facts."""
    place = source.resolve(finding.place or where.fallback)
    text, message_id, arguments = message_parts(finding)
    seed = f"{finding.rule.id}|{finding.identity}|{place.line}"
    suppression = finding.suppression
    return om.Result(
        rule_id=finding.rule.id,
        rule_index=rule_index,
        kind="fail",
        level=finding.level.value,
        message=om.Message(text=text, id=message_id, arguments=list(arguments)),
        locations=[_location(place, where)],
        related_locations=[
            _location(other, where, number=number, text=_other(other))
            for number, other in enumerate(finding.related, start=1)
        ],
        stacks=_stacks(place, where),
        code_flows=_code_flows(finding.steps, where),
        fixes=_unique([_fix(fix, where) for fix in finding.fixes if fix.edits]),
        occurrence_count=finding.count,
        guid=str(uuid.uuid5(_NAMESPACE, seed)),
        partial_fingerprints=_fingerprints(finding, place),
        baseline_state=finding.baseline.value if finding.baseline else None,
        suppressions=[om.Suppression(kind=suppression.kind.value, justification=suppression.reason or None)]
        if suppression
        else None,
        properties=_properties(finding) or None,
    )


def _location(place: Place, where: Where, *, number: int | None = None, text: str | None = None) -> Any:
    return om.Location(
        id=-1 if number is None else number,
        physical_location=_physical(source.resolve(place), where),
        logical_locations=[
            om.LogicalLocation(name=name, fully_qualified_name=full, kind=kind) for name, full, kind in _logical(place)
        ],
        message=None if text is None else om.Message(text=text),
    )


def _physical(place: Place, where: Where) -> Any:
    return om.PhysicalLocation(
        artifact_location=_artifact(place.path, where),
        region=_region(place),
        context_region=_context(place),
    )


def _artifact(path: str, where: Where) -> Any:
    uri, relative = uri_of(path, where.root)
    return om.ArtifactLocation(uri=uri, uri_base_id="SRCROOT" if relative else None)


def _region(place: Place) -> Any:
    snippet, line = place.snippet, source.line_at(place.path, place.line)
    if place.column is not None and line is not None:
        snippet = cut(line, place.column, place.end_column) or snippet
    return om.Region(
        start_line=max(1, place.line),
        start_column=place.column,
        end_column=place.end_column,
        snippet=om.ArtifactContent(text=snippet) if snippet else None,
    )


def _context(place: Place) -> Any:
    """The lines around, with the line itself; None where there are none (a context must be larger than its region)."""
    lines = source.lines_of(place.path)
    first, last = max(1, place.line - CONTEXT), min(len(lines), place.line + CONTEXT)
    if place.column is None or first >= last or not first <= place.line <= last:
        return None
    text = "".join(lines[first - 1 : last]).removesuffix("\n")
    return om.Region(start_line=first, end_line=last, snippet=om.ArtifactContent(text=text))


def _logical(place: Place) -> Iterator[tuple[str, str, str]]:
    """The nn.Module first: it is what Azure DevOps shows; then the FX node and the ONNX node."""
    if place.module:
        yield place.module.rpartition(".")[2], place.module, "module"
    if place.node:
        yield place.node, f"{place.module}:{place.node}" if place.module else place.node, "fxNode"
    if place.onnx_node:
        yield place.onnx_node, place.onnx_node, "onnxNode"


def _other(place: Place) -> str:
    return f"Also here, in '{visible(place.module)}'." if place.module else "Also here."


def _stacks(place: Place, where: Where) -> Sequence[Any] | None:
    if not place.stack or [(frame.path, frame.line) for frame in place.stack] == [(place.path, place.line)]:
        return None  # one frame is the place itself
    frames = [
        om.StackFrame(
            location=om.Location(
                physical_location=om.PhysicalLocation(
                    artifact_location=_artifact(frame.path, where), region=om.Region(start_line=max(1, frame.line))
                ),
                logical_locations=[
                    om.LogicalLocation(name=frame.function, fully_qualified_name=frame.function, kind="function")
                ],
            )
        )
        for frame in place.stack
    ]
    return [om.Stack(message=om.Message(text="The calls that led here."), frames=frames)]  # VS Code needs the message


def _code_flows(steps: Sequence[Step], where: Where) -> Sequence[Any] | None:
    if not steps:
        return None
    locations = [
        om.ThreadFlowLocation(nesting_level=step.nesting or None, location=_step(step, where)) for step in steps
    ]
    return [om.CodeFlow(thread_flows=[om.ThreadFlow(locations=locations)])]


def _step(step: Step, where: Where) -> Any:
    """A step is where something stands, and shows no source: a result has several, and their texts have the names."""
    place = step.place
    region = om.Region(start_line=max(1, place.line), start_column=place.column, end_column=place.end_column)
    return om.Location(
        physical_location=om.PhysicalLocation(artifact_location=_artifact(place.path, where), region=region),
        message=om.Message(text=visible(step.text)),
    )


def _fix(fix: Fix, where: Where) -> Any:
    changes = [
        om.ArtifactChange(
            artifact_location=_artifact(path, where), replacements=_unique([_replacement(edit) for edit in edits])
        )
        for path, edits in groupby(sorted(fix.edits, key=lambda edit: edit.path), key=lambda edit: edit.path)
    ]
    return om.Fix(
        description=om.Message(text=visible(fix.description)),
        artifact_changes=changes,
        properties={"applicability": fix.applicability.value, **({"code": fix.code} if fix.code else {})},
    )


def _unique(things: Sequence[Any]) -> Sequence[Any]:
    """Without those that look the same in JSON: the schema refuses equal fixes and equal replacements."""
    written = [to_dict(thing) for thing in things]
    return [thing for number, thing in enumerate(things) if written[number] not in written[:number]]


def _replacement(edit: Edit) -> Any:
    return om.Replacement(
        deleted_region=om.Region(
            start_line=edit.line, start_column=edit.column, end_line=edit.end_line, end_column=edit.end_column
        ),
        inserted_content=om.ArtifactContent(text=edit.text),
    )


def _fingerprints(finding: Finding, place: Place) -> Mapping[str, str]:
    prints = {IDENTITY: finding.identity} if finding.identity else {}
    lines = source.lines_of(place.path)
    if 0 < place.line <= len(lines):
        prints["primaryLocationLineHash"] = line_hashes("".join(lines))[place.line - 1]
    return prints


def _properties(finding: Finding) -> dict[str, object]:
    """The facts, and the fixes that are no edits: SARIF has no other place for code to paste."""
    properties: dict[str, object] = {
        f"{name}_" if name in _RESERVED else name: value for name, value in finding.facts.items() if value is not None
    }
    pasted = [
        {
            "description": fix.description,
            "applicability": fix.applicability.value,
            **({"code": fix.code} if fix.code else {}),
        }
        for fix in finding.fixes
        if not fix.edits
    ]
    return {**properties, SUGGESTIONS: pasted} if pasted else properties
