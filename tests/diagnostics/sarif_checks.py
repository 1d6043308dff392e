"""What must hold for every SARIF log that fxport writes, as one generator of breaches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).parent / "sarif-2.1.0.schema.json"
SHOWN = 5_000


@cache
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER)


def strict(text: str) -> dict[str, Any]:
    """JSON as Go, .NET and node read it: no NaN, no keys twice, no lone surrogates."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            raise ValueError(f"twice: {keys}")
        return dict(pairs)

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


def breaches(log: Mapping[str, Any]) -> Iterator[str]:
    """Of the schema, and of what the consumers of SARIF demand beyond it."""
    for error in validator().iter_errors(log):
        yield f"schema: {list(error.absolute_path)}: {error.message[:200]}"
    if log.get("$schema") != "https://json.schemastore.org/sarif-2.1.0.json":
        yield "$schema is another"
    for run in log["runs"]:
        yield from _run(run)
        for result in run["results"]:
            yield from _result(result, run)


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    if run.get("columnKind") != "utf16CodeUnits":
        yield "columnKind"
    root = run["originalUriBaseIds"]["SRCROOT"]["uri"]
    if not (root.startswith("file:///") and root.endswith("/")):
        yield f"SRCROOT is {root}"
    for details in run.get("versionControlProvenance", []):
        if details["mappedTo"] != {"uriBaseId": "SRCROOT"}:
            yield "versionControlProvenance is mapped elsewhere"
    for key in ("suppressions", "baselineState"):
        having = [key in result for result in run["results"]]
        if any(having) and not all(having):
            yield f"{key} is on some results only"
    guids = [result["guid"] for result in run["results"]]
    if len(set(guids)) < len(guids):
        yield "a guid twice"
    if not run["automationDetails"]["id"].startswith("fxport/"):
        yield "automationDetails.id"
    for rule in run["tool"]["driver"]["rules"]:
        if not {"helpUri", "fullDescription", "help", "messageStrings", "name"} <= rule.keys():
            yield f"{rule['id']} lacks a description"
        if len(rule["fullDescription"]["text"]) > 1024:
            yield f"{rule['id']} has a description too long for GitHub"


def _result(result: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[str]:
    name = result["ruleId"]
    if result["kind"] != "fail" and result["level"] != "none":
        yield f"{name}: kind {result['kind']} with level {result['level']}"
    if run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] != name:
        yield f"{name}: ruleIndex"
    if "markdown" in result["message"] or not result["message"].get("text"):
        yield f"{name}: message"
    yield from _template(result, run["tool"]["driver"]["rules"][result["ruleIndex"]]["messageStrings"])
    if not result.get("locations") or "physicalLocation" not in result["locations"][0]:
        yield f"{name}: no physical location"
    for location in (*result["locations"], *result.get("relatedLocations", ())):
        yield from _location(name, location["physicalLocation"])
    for stack in result.get("stacks", ()):
        if not stack["message"]["text"]:
            yield f"{name}: a stack that VS Code does not show"
    if "rank" in result:
        yield f"{name}: GitLab takes the rank for the level"
    for link in result.get("relatedLocations", ()):
        if link["id"] < 1:
            yield f"{name}: a related location that nothing can link to"


def _template(result: Mapping[str, Any], templates: Mapping[str, Any]) -> Iterator[str]:
    """The message's text is what its template and arguments give."""
    message = result["message"]
    if "id" not in message:
        return
    text = templates[message["id"]]["text"]
    for index, argument in enumerate(message.get("arguments", ())):
        text = text.replace(f"{{{index}}}", argument)
    if text != message["text"]:
        yield f"{result['ruleId']}: '{text}' is not '{message['text']}'"


def _location(name: str, physical: Mapping[str, Any]) -> Iterator[str]:
    artifact, region = physical["artifactLocation"], physical["region"]
    uri = artifact["uri"]
    if not uri.isascii() or " " in uri or "\\" in uri:
        yield f"{name}: '{uri}' is not percent-encoded"
    if ("uriBaseId" in artifact) == uri.startswith(("file:", "/")):
        yield f"{name}: '{uri}' and its base"
    if region["startLine"] < 1 or region.get("startColumn", 1) < 1:
        yield f"{name}: a region before the file"
    if "endColumn" in region and region["endColumn"] <= region["startColumn"]:
        yield f"{name}: an empty region"
    if context := physical.get("contextRegion"):
        lines = context["snippet"]["text"].split("\n")
        if not context["startLine"] <= region["startLine"] <= context["endLine"]:
            yield f"{name}: a context elsewhere"
        if len(lines) != context["endLine"] - context["startLine"] + 1:
            yield f"{name}: a context of other lines"
