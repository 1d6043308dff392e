"""SARIF: the schema, the invariants, profiles, reading back, negative controls."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fxport.diagnostics import (
    BaselineState,
    Edit,
    Finding,
    Fix,
    Log,
    Place,
    SuppressedBy,
    Suppression,
    rule_pages,
    rules,
)
from fxport.diagnostics.sarif import PROFILES, About, as_text, read_sarif, to_sarif, write_sarif
from fxport.diagnostics.sarif.linehash import line_hashes
from fxport.diagnostics.sarif.objects import from_dict, to_dict
from tests.diagnostics.sarif_checks import breaches, strict

ABOUT = About(model="bert", run="ci", version="1.2.3")


def results_of(log: Log, **keywords: Any) -> list[dict[str, Any]]:
    return strict(as_text(to_sarif(log, about=ABOUT, **keywords)))["runs"][0]["results"]


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_keeps_the_schema_and_the_invariants(log: Log, profile: str) -> None:
    assert list(breaches(strict(as_text(to_sarif(log, profile=profile, about=ABOUT))))) == []


def test_an_empty_log_is_a_log(project: Path) -> None:
    document = strict(as_text(to_sarif(Log())))
    assert list(breaches(document)) == []
    assert document["runs"][0]["results"] == []
    assert document["runs"][0]["tool"]["driver"]["rules"] == []


def test_golden(log: Log, project: Path, golden: Callable[[str, str], None]) -> None:
    text = as_text(to_sarif(log, about=replace(ABOUT, started=datetime(2030, 1, 2, tzinfo=UTC), command=("fxport",))))
    golden("log.sarif", text.replace(project.as_uri(), "file:///ROOT"))


def test_the_same_log_gives_the_same_bytes(log: Log, tmp_path: Path) -> None:
    paths = [write_sarif(log, tmp_path / f"{number}.sarif", about=ABOUT) for number in (1, 2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_reading_back_gives_the_findings(log: Log, tmp_path: Path) -> None:
    back = read_sarif(write_sarif(log, tmp_path / "log.sarif", about=ABOUT))
    written = list(log.findings)
    for old, new in zip(written, back, strict=True):
        assert seen(new) == seen(old)
    # The findings without a place of their own have got one.
    assert [finding.place is None for finding in written] == [True, False, False, False, True]
    assert all(finding.place for finding in back)


def seen(finding: Finding) -> dict[str, object]:
    """A finding as far as a log can hold it."""
    place = finding.place and replace(finding.place, call=None)
    return {
        "rule": finding.rule,
        "level": finding.level,
        "message": finding.message,
        "place": place if finding.place and finding.rule.id not in ("FXP1005", "FXP5002") else None,
        "facts": {name: "NaN" if value != value else value for name, value in finding.facts.items()},
        "related": [replace(other, call=None, stack=()) for other in finding.related],
        "fixes": finding.fixes,
        "count": finding.count,
        "identity": finding.identity,
        "steps": [(step.text, step.place.line, step.nesting) for step in finding.steps],
        "suppression": finding.suppression,
        "baseline": finding.baseline,
    }


def test_objects_and_json_are_each_others_inverse(log: Log) -> None:
    document = strict(as_text(to_sarif(log, about=ABOUT)))
    assert to_dict(from_dict(document)) == document


def test_repeated_findings_link_to_their_other_places(log: Log) -> None:
    (result,) = [item for item in results_of(log) if item["ruleId"] == "FXP3006"]
    assert result["occurrenceCount"] == 12
    assert result["message"]["text"].count(
        "It was found 12 times, also [here](1), [here](2) and [here](3). What to do: "
    )
    assert [location["id"] for location in result["relatedLocations"]] == list(range(1, 12))
    assert result["relatedLocations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "encoder.1.twist"


def test_columns_and_snippets_are_those_of_the_call(log: Log) -> None:
    (result,) = [item for item in results_of(log) if item["ruleId"] == "FXP3006"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "my%20model.py", "uriBaseId": "SRCROOT"}
    assert physical["region"] == {
        "startLine": 6,
        "startColumn": 27,
        "endColumn": 65,
        "snippet": {"text": "torch.ops.mylib.twist(self.norm(x), 2)"},
    }
    assert [
        frame["location"]["physicalLocation"]["region"]["startLine"] for frame in result["stacks"][0]["frames"]
    ] == [6, 8]


def test_findings_without_a_place_take_the_callers(log: Log, model_file: str) -> None:
    by_rule = {item["ruleId"]: item for item in results_of(log, default_place=Place(model_file, 4))}
    assert by_rule["FXP5002"]["locations"][0]["physicalLocation"]["region"]["startLine"] == 4


def test_without_any_place_there_still_is_a_location(project: Path) -> None:
    log = Log()
    log.report(rules.CAPTURE_FAILED, error="x")
    assert list(breaches(to_sarif(log))) == []
    assert results_of(log)[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "%3Cmodel%3E"


def test_a_note_and_a_warning_keep_their_level(log: Log) -> None:
    assert [item["level"] for item in results_of(log)] == ["note", "note", "warning", "error", "error"]


def test_nan_is_a_string(log: Log) -> None:
    (result,) = [item for item in results_of(log) if item["ruleId"] == "FXP5002"]
    assert result["properties"]["worst"] == "NaN"


def test_code_to_paste_is_in_the_properties(log: Log) -> None:
    (result,) = [item for item in results_of(log) if item["ruleId"] == "FXP3001"]
    assert "fixes" not in result
    assert result["properties"]["suggestions"][0]["code"].startswith("def twist")


def test_equal_fixes_are_one(model_file: str) -> None:
    log = Log()
    fix = Fix("Do it.", (Edit(model_file, 1, 1, 1, 1, "x"),) * 2)
    log.report(rules.CAPTURE_FAILED, Place(model_file, 1), error="x", fixes=[fix, fix])
    assert list(breaches(to_sarif(log))) == []
    (result,) = results_of(log)
    assert len(result["fixes"]) == len(result["fixes"][0]["artifactChanges"][0]["replacements"]) == 1


def annotated(log: Log) -> Log:
    """The first finding suppressed, the second unchanged, the third absent."""

    def revision(findings: Any) -> Any:
        first, second, third, *rest = findings
        return [
            replace(first, suppression=Suppression(SuppressedBy.SOURCE, "meant")),
            replace(second, baseline=BaselineState.UNCHANGED),
            replace(third, baseline=BaselineState.ABSENT),
            *rest,
        ]

    log.revise(revision)
    return log


def test_suppressions_and_states_are_on_all_results_or_none(log: Log) -> None:
    results = results_of(annotated(log))
    assert [item["suppressions"] for item in results] == [
        [{"kind": "inSource", "justification": "meant"}],
        [],
        [],
        [],
        [],
    ]
    assert [item["baselineState"] for item in results] == ["new", "unchanged", "absent", "new", "new"]
    assert list(breaches(to_sarif(log))) == []


def test_github_gets_only_what_is_open(log: Log) -> None:
    results = results_of(annotated(log), profile="github")
    assert [item["ruleId"] for item in results] == ["FXP3006", "FXP3001", "FXP5002"]
    assert not any("suppressions" in item for item in results)


def test_github_gets_the_worst_five_thousand(project: Path) -> None:
    log = Log()
    for number in range(5_001):
        log.report(rules.STATE_MUTATED, name=f"n{number}", output="o")
    log.report(rules.NO_ONNX_LOWERING, op="a")
    results = results_of(log, profile="github")
    assert len(results) == 5_000
    assert results[0]["ruleId"] == "FXP3001"


def test_pages_are_where_each_consumer_looks(log: Log) -> None:
    def rule(profile: str, rule_id: str) -> dict[str, Any]:
        table = strict(as_text(to_sarif(log, profile=profile)))["runs"][0]["tool"]["driver"]["rules"]
        return next(entry for entry in table if entry["id"] == rule_id)

    error, note = "FXP3001", "FXP1005"
    assert "markdown" in rule("full", error)["help"]
    assert "markdown" in rule("full", error)["fullDescription"]
    assert "markdown" not in rule("ide", error)["help"]
    assert "markdown" in rule("ide", error)["fullDescription"]
    assert "markdown" in rule("github", error)["help"]
    for profile in PROFILES:
        assert "markdown" not in rule(profile, note)["help"] | rule(profile, note)["fullDescription"]
        assert rule(profile, note)["help"]["text"] == rule_pages.hint(rules.RULES[note])


def test_the_run_says_whose_failure_it_was(log: Log) -> None:
    about = About(
        failure="KeyError: 'x'", command=("fxport", "--token", "s3cret", "--api-key=k", str(Path.home() / "m.py"))
    )
    (invocation,) = strict(as_text(to_sarif(log, about=about)))["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "KeyError: 'x'"
    assert invocation["commandLine"] == "fxport --token *** --api-key=*** ~/m.py"


def test_times_are_given_in_utc(log: Log) -> None:
    about = About(started=datetime(2030, 1, 2, 3, 4, 5, 678900, tzinfo=UTC))
    (invocation,) = strict(as_text(to_sarif(log, about=about)))["runs"][0]["invocations"]
    assert invocation["startTimeUtc"] == "2030-01-02T03:04:05.678Z"
    assert invocation["properties"]["seconds"] == {"capture": 1.0, "lower": 1.0}


def test_a_file_is_written_whole_or_not_at_all(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new" / "log.sarif"
    write_sarif(log, target)
    before = target.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_sarif(Log(), target)
    assert target.read_bytes() == before
    assert [file.name for file in target.parent.iterdir()] == ["log.sarif"]


def test_importing_the_package_does_not_import_sarif_om() -> None:
    modules = "import sys, fxport.diagnostics.sarif, fxport.diagnostics.text"
    code = f"{modules}; sys.exit('sarif_om' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_line_hash_is_githubs() -> None:
    # The first is in the tests of github/codeql-action: the hash of an empty file.
    assert line_hashes("") == ("c129715d7a2bc9a3:1",)
    assert line_hashes("a\r\nb\rc") == line_hashes(" a\n\tb\nc ")
    repeated = line_hashes("x" * 200 + "\n" + "x" * 200 + "\n")
    assert [entry.rpartition(":")[2] for entry in repeated] == ["1", "2", "1"]
