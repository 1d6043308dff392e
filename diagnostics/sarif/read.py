"""SARIF → findings: for baselines, and to show a log that was written elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from fxport.diagnostics.model import (
    Applicability,
    BaselineState,
    Edit,
    Finding,
    Fix,
    Frame,
    Level,
    Place,
    Rule,
    Step,
    SuppressedBy,
    Suppression,
)
from fxport.diagnostics.rules import RULES
from fxport.diagnostics.sarif.messages import without_additions
from fxport.diagnostics.sarif.objects import SarifError, from_dict
from fxport.diagnostics.sarif.results import IDENTITY, SUGGESTIONS

TOOL = "fxport"
_NODE_FIELDS = {"module": "module", "fxNode": "node", "onnxNode": "onnx_node"}


def findings_of(data: object) -> Sequence[Finding]:
    """The findings of all runs of a log. Raises SarifError where it is not a log of fxport."""
    log = from_dict(data)
    if log.version != "2.1.0":
        raise SarifError(f"$.version: '2.1.0' is expected, not {log.version!r}")
    found: list[Finding] = []
    for index, run in enumerate(_list(log.runs, "$.runs")):
        try:
            found += _run(run, index)
        except SarifError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            raise SarifError(f"$.runs[{index}]: {error}") from error
    return tuple(found)


def _run(run: Any, index: int) -> Iterator[Finding]:  # Any, here and below: sarif_om has no types
    driver = run.tool.driver
    if driver.name != TOOL:
        raise SarifError(f"$.runs[{index}].tool.driver.name: a log of {TOOL} is expected, not of {driver.name!r}")
    bases = {name: unquote(urlsplit(base.uri or "").path) for name, base in (run.original_uri_base_ids or {}).items()}
    table = {rule.id: _rule(rule) for rule in driver.rules or ()}
    for number, result in enumerate(_list(run.results or [], f"$.runs[{index}].results")):
        try:
            yield _finding(result, table, bases)
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            raise SarifError(f"$.runs[{index}].results[{number}]: {error}") from error


def _rule(rule: Any) -> Rule:
    level = rule.default_configuration.level if rule.default_configuration else "warning"
    known = RULES.get(rule.id)
    return known or Rule(
        rule.id, rule.name or rule.id, _level(level), rule.short_description.text if rule.short_description else ""
    )


def _finding(result: Any, table: Mapping[str, Rule], bases: Mapping[str, str]) -> Finding:
    rule = (
        table.get(result.rule_id)
        or RULES.get(result.rule_id)
        or Rule(str(result.rule_id), str(result.rule_id), Level.WARNING, "")
    )
    properties = dict(result.properties or {})
    suggestions = properties.pop(SUGGESTIONS, ())
    properties.pop("tags", None)
    place = _place(result.locations[0], bases) if result.locations else None
    if place is not None and result.stacks:
        place = _with_stack(place, result.stacks[0], bases)
    suppression = next(iter(result.suppressions or ()), None)
    found = Finding(
        rule=rule,
        level=_level(result.level),
        message=result.message.text or "",
        place=place,
        facts={
            name.removesuffix("_") if name in ("tags_", f"{SUGGESTIONS}_") else name: value
            for name, value in properties.items()
        },
        related=tuple(_place(location, bases) for location in result.related_locations or ()),
        fixes=(*(_fix(fix, bases) for fix in result.fixes or ()), *(_suggestion(item) for item in suggestions)),
        count=result.occurrence_count or 1,
        identity=str((result.partial_fingerprints or {}).get(IDENTITY, "")),
        steps=tuple(_steps(result, bases)),
        suppression=Suppression(SuppressedBy(suppression.kind), suppression.justification or "")
        if suppression
        else None,
        baseline=_baseline(result.baseline_state),
    )
    return replace(found, message=without_additions(found.message, found))


def _place(location: Any, bases: Mapping[str, str]) -> Place:
    physical = location.physical_location
    region, context = physical.region, physical.context_region
    nodes = {
        _NODE_FIELDS[logical.kind]: logical.name if logical.kind != "module" else logical.fully_qualified_name
        for logical in location.logical_locations or ()
        if logical.kind in _NODE_FIELDS
    }
    line = region.start_line if region else 1
    snippet = region.snippet.text if region and region.snippet else None
    if context and context.snippet:
        snippet = context.snippet.text.split("\n")[line - context.start_line].strip()
    return Place(
        _path(physical.artifact_location, bases),
        line,
        region.start_column if region else None,
        region.end_column if region else None,
        snippet,
        **nodes,
    )


def _with_stack(place: Place, stack: Any, bases: Mapping[str, str]) -> Place:
    frames = tuple(
        Frame(
            _path(frame.location.physical_location.artifact_location, bases),
            frame.location.physical_location.region.start_line,
            frame.location.logical_locations[0].name,
        )
        for frame in stack.frames
    )
    return replace(place, stack=frames)


def _steps(result: Any, bases: Mapping[str, str]) -> Iterator[Step]:
    for flow in result.code_flows or ():
        for step in flow.thread_flows[0].locations:
            yield Step(step.location.message.text, _place(step.location, bases), step.nesting_level or 0)


def _fix(fix: Any, bases: Mapping[str, str]) -> Fix:
    properties = fix.properties or {}
    edits = tuple(
        Edit(
            _path(change.artifact_location, bases),
            region.start_line,
            region.start_column,
            region.end_line,
            region.end_column,
            replacement.inserted_content.text if replacement.inserted_content else "",
        )
        for change in fix.artifact_changes
        for replacement in change.replacements
        for region in (replacement.deleted_region,)
    )
    return Fix(
        fix.description.text if fix.description else "",
        edits,
        Applicability(properties.get("applicability", Applicability.MAYBE)),
        properties.get("code"),
    )


def _suggestion(item: Mapping[str, Any]) -> Fix:
    code = item.get("code")
    return Fix(str(item["description"]), (), Applicability(item["applicability"]), None if code is None else str(code))


def _path(artifact: Any, bases: Mapping[str, str]) -> str:
    path = unquote(urlsplit(artifact.uri).path if artifact.uri.startswith("file:") else artifact.uri)
    return path if path.startswith("<") else bases.get(artifact.uri_base_id or "", "") + path


def _level(level: str) -> Level:
    return Level.NOTE if level == "none" else Level(level)


def _baseline(state: str | None) -> BaselineState | None:
    if state is None:
        return None
    return BaselineState.UNCHANGED if state == "updated" else BaselineState(state)


def _list(value: object, path: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise SarifError(f"{path}: a list is expected, not {type(value).__name__}")
    return value
