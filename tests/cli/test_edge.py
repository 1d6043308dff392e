"""The edge: exit codes, and a report whatever ended the work."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fxport.diagnostics import Level, Log, Place, rules
from fxport.diagnostics.formats import Format
from fxport.diagnostics.report import FailOn, Report
from fxport.exporter.cli.edge import run
from fxport.exporter.sources.policy import baseline_of, levels_of
from fxport.exporter.sources.usage import UsageError

PLACE = Place("models.py", 8)


def clean(log: Log) -> str:
    return "all well"


def says(*levels: Level) -> Callable[[Log], str]:
    def work(log: Log) -> str:
        for level in levels:
            log.report(rules.STATE_MUTATED, at=PLACE, level=level, name=level.value, output="x")
        return "a model was written"

    return work


def stops(log: Log) -> str:
    with log.stage("lower"):
        log.report(rules.NO_ONNX_LOWERING, at=PLACE, op="aten.foo.default")
    return "never said"


def breaks(log: Log) -> str:
    log.report(rules.STATE_MUTATED, at=PLACE, name="x", output="x.updated")
    raise ZeroDivisionError("a fault of ours")


def interrupts(log: Log) -> str:
    log.report(rules.STATE_MUTATED, at=PLACE, name="x", output="x.updated")
    raise KeyboardInterrupt


def exit_code(
    work: Callable[[Log], str], folder: Path, form: Format = Format.TEXT, fail_on: FailOn = FailOn.ERROR
) -> int:
    return run(work, Report("models.py:adder", form, folder / "log.sarif", fail_on))


@pytest.mark.parametrize(
    ("levels", "fail_on", "code"),
    [
        ((), FailOn.NOTE, 0),
        ((Level.NOTE,), FailOn.ERROR, 0),
        ((Level.NOTE,), FailOn.NOTE, 1),
        ((Level.WARNING,), FailOn.ERROR, 0),
        ((Level.NOTE, Level.WARNING), FailOn.WARNING, 1),
        ((Level.ERROR,), FailOn.ERROR, 1),
        ((Level.ERROR,), FailOn.NEVER, 0),
    ],
)
def test_fail_on(folder: Path, levels: tuple[Level, ...], fail_on: FailOn, code: int) -> None:
    assert exit_code(says(*levels), folder, fail_on=fail_on) == code


@pytest.mark.parametrize(
    ("work", "code", "found", "successful"),
    [
        (clean, 0, [], True),
        (stops, 1, ["FXP3001"], True),
        (breaks, 3, ["FXP1005", "FXP9001"], False),
        (interrupts, 130, ["FXP1005"], False),
    ],
)
def test_the_sarif_file_is_always_written(
    folder: Path, work: Callable[[Log], str], code: int, found: list[str], successful: bool
) -> None:
    assert exit_code(work, folder) == code
    (sarif_run,) = json.loads((folder / "log.sarif").read_text())["runs"]
    assert sorted(result["ruleId"] for result in sarif_run.get("results", [])) == found
    assert sarif_run["invocations"][0]["executionSuccessful"] is successful


def test_no_model_is_a_failure_whatever_fail_on_says(folder: Path) -> None:
    assert exit_code(stops, folder, fail_on=FailOn.NEVER) == 1


def test_a_fault_of_ours_asks_for_a_report(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["fxport", "export", "my models.py:adder"])
    assert exit_code(breaks, folder, Format.JSON) == 3
    said = capsys.readouterr()
    fault = next(finding for finding in json.loads(said.out)["findings"] if finding["rule"] == "FXP9001")
    assert "please report" in fault["message"]
    assert fault["facts"]["command"] == "fxport export 'my models.py:adder'"
    assert "ZeroDivisionError" in said.err
    assert "The command was: fxport export 'my models.py:adder'" in said.err


def test_a_usage_error_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work(log: Log) -> str:
        log.report(rules.STATE_MUTATED, at=PLACE, name="x", output="y")
        raise UsageError("what, where, what to do")

    with pytest.raises(UsageError):
        exit_code(work, folder)
    assert not (folder / "log.sarif").exists()
    assert capsys.readouterr().out == ""


def test_formats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for form in Format:
        exit_code(says(Level.WARNING), folder, form)
        said[form] = capsys.readouterr().out
    assert json.loads(said[Format.JSON])["findings"][0]["rule"] == "FXP1005"
    assert said[Format.GITHUB].startswith("::warning ")
    assert "FXP1005" in said[Format.TEXT]
    assert "\x1b" not in said[Format.TEXT]
    assert all(said[form].endswith("a model was written\n") for form in (Format.TEXT, Format.GITHUB))


@pytest.mark.parametrize(
    ("name", "line"), [("Adder", "class Adder"), ("adder", "adder ="), ("linear", "def linear"), ("none", '"""Models')]
)
def test_a_finding_without_a_place_is_shown_at_the_model(folder: Path, name: str, line: str) -> None:
    def work(log: Log) -> str:
        log.report(rules.VALIDATION_SKIPPED, reason="no inputs")
        return ""

    run(work, Report(f"models.py:{name}", Format.TEXT, folder / "log.sarif", FailOn.ERROR))
    (result,) = json.loads((folder / "log.sarif").read_text())["runs"][0]["results"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"].endswith("models.py")
    lines = (folder / "models.py").read_text().splitlines()
    assert lines[physical["region"]["startLine"] - 1].startswith(line)


def known(folder: Path, work: Callable[[Log], str], **keywords: Any) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the results of a run with wishes."""
    code = run(work, Report("models.py:adder", Format.TEXT, folder / "log.sarif", FailOn.NEW_ERROR, **keywords))
    document = json.loads((folder / "log.sarif").read_text(encoding="utf-8"))
    return code, document["runs"][0]["results"]


def test_a_baseline_tells_new_errors_from_known_ones(folder: Path) -> None:
    one, both = says(Level.ERROR), says(Level.ERROR, Level.WARNING)
    code, _ = known(folder, one)
    assert code == 1
    (folder / "log.sarif").rename(folder / "old.sarif")
    code, results = known(folder, both, baseline=baseline_of(folder / "old.sarif"))
    assert (code, [result["baselineState"] for result in results]) == (0, ["unchanged", "new"])
    code, results = known(folder, clean, baseline=baseline_of(folder / "old.sarif"))
    assert (code, [result["baselineState"] for result in results]) == (0, ["absent"])


def test_a_comment_suppresses_and_one_that_matches_nothing_is_told(folder: Path) -> None:
    text = "import torch\nx = 1  # fxport: ignore[FXP1005] it is meant\ny = 2  # fxport: ignore[FXP4001] gone\n"
    (folder / "models.py").write_text(text, encoding="utf-8")

    def work(log: Log) -> str:
        place = Place(str(folder / "models.py"), 2)
        log.report(rules.STATE_MUTATED, at=place, level=Level.ERROR, name="x", output="x.updated")
        return ""

    code, results = known(folder, work)
    assert code == 0
    assert [(r["ruleId"], len(r["suppressions"])) for r in results] == [("FXP1005", 1), ("FXP9002", 0)]


def test_levels_of_rules_are_the_users(folder: Path) -> None:
    noted = says(Level.NOTE)
    assert known(folder, noted, levels=levels_of([], [], ["FXP1005=error"]))[0] == 1
    assert known(folder, noted, levels=levels_of([], ["StateMutated"], []))[1] == []
    assert known(folder, noted, levels=levels_of(["FXP4"], [], []))[1] == []


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (lambda: levels_of(["FXP99999"], [], []), "no rule is called 'FXP99999'"),
        (lambda: levels_of([], [], ["FXP1005"]), "names no level"),
        (lambda: levels_of([], [], ["FXP1005=loud"]), "'loud' is no level"),
        (lambda: baseline_of(Path("absent.sarif")), "cannot be read"),
        (lambda: baseline_of(Path(__file__)), "not JSON"),
    ],
)
def test_wishes_that_make_no_sense(wish: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        wish()
    assert "\n" not in str(raised.value)
