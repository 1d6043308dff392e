"""Baselines, suppressions by comment, and what the user wants to hear."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxport.diagnostics import BaselineState, Level, Log, Place, SuppressedBy, Suppression, rules
from fxport.diagnostics.baseline import against
from fxport.diagnostics.policy import levels
from fxport.diagnostics.sarif import read_sarif, write_sarif
from fxport.diagnostics.suppressions import by_comments, comments_in

SOURCE = """\
def forward(self, x):
    y = foo(x)  # fxport: ignore[FXP4002] known, foo is ours
    z = foo(y)
    s = "# fxport: ignore[FXP4002]"  # fxport: ignore[FXP4001, FXP4002]
    return z
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / ".git").mkdir()
    path = tmp_path / "m.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def test_new_unchanged_and_absent_survive_moved_lines(file: str, tmp_path: Path) -> None:
    old = Log()
    for line, op in ((2, "foo"), (3, "gone")):
        old.report(rules.NO_ONNX_LOWERING, Place(file, line), op=op)
    baseline = read_sarif(write_sarif(old, tmp_path / "old.sarif"))
    new = Log()
    for line, op in ((5, "foo"), (1, "fresh")):
        new.report(rules.NO_ONNX_LOWERING, Place(file, line), op=op)
    new.revise(against(baseline))
    assert [(f.facts["op"], f.baseline, f.is_open) for f in new.findings] == [
        ("foo", BaselineState.UNCHANGED, True),
        ("fresh", BaselineState.NEW, True),
        ("gone", BaselineState.ABSENT, False),
    ]


def test_the_same_log_has_nothing_new(log: Log, tmp_path: Path) -> None:
    log.revise(against(read_sarif(write_sarif(log, tmp_path / "old.sarif"))))
    assert {finding.baseline for finding in log.findings} == {BaselineState.UNCHANGED}


def test_what_was_absent_before_is_new_again(file: str) -> None:
    old, new = Log(), Log()
    old.report(rules.NO_ONNX_LOWERING, Place(file, 2), op="foo")
    old.revise(against([]))
    once = Log()
    once.revise(against(old.findings))
    new.report(rules.NO_ONNX_LOWERING, Place(file, 2), op="foo")
    new.revise(against(once.findings))
    assert [finding.baseline for finding in new.findings] == [BaselineState.NEW]


def test_a_suppression_of_the_baseline_stays_and_one_in_its_source_does_not(file: str) -> None:
    from dataclasses import replace

    old, new = Log(), Log()
    for log in (old, new):
        for op in ("a", "b"):
            log.report(rules.NO_ONNX_LOWERING, Place(file, 3), op=op)
    kinds = (SuppressedBy.BASELINE, SuppressedBy.SOURCE)
    old.revise(lambda found: [replace(f, suppression=Suppression(k, "why")) for f, k in zip(found, kinds, strict=True)])
    new.revise(against(old.findings))
    assert [finding.suppression and finding.suppression.reason for finding in new.findings] == ["why", None]


def test_a_comment_on_the_line_suppresses_its_rule(file: str) -> None:
    log = Log()
    log.report(rules.PRECISION_LOWERED, Place(file, 2), name="foo", source="float64", target="float32")
    log.report(rules.LOWERING_RAISED, Place(file, 2), op="foo", error="x")
    log.revise(by_comments())
    suppressed, other, *unused = log.findings
    assert suppressed.suppression == Suppression(SuppressedBy.SOURCE, "known, foo is ours")
    assert other.suppression is None
    assert [(f.rule.id, f.facts["name"], f.place and f.place.line) for f in unused] == [
        ("FXP9002", "FXP4001", 4),
        ("FXP9002", "FXP4002", 4),
    ]


def test_a_finding_of_several_places_needs_a_comment_at_each(file: str) -> None:
    log = Log()
    for line in (2, 3):
        log.report(rules.PRECISION_LOWERED, Place(file, line), name="foo", source="float64", target="float32")
    log.revise(by_comments())
    assert log.findings[0].suppression is None
    assert 2 not in [finding.place and finding.place.line for finding in log.findings[1:]]


def unused(text: str, path: Path, **choices: object) -> list[tuple[str, int, str]]:
    """Names, lines and reasons of the comments of a text that have no effect on one finding in its second line."""
    path.write_text(text, encoding="utf-8")
    log = Log()
    log.report(rules.PRECISION_LOWERED, Place(str(path), 2), name="x", source="float64", target="float32")
    log.revise(by_comments([str(path)], **choices))  # type: ignore[arg-type]  # names of its own parameters
    told = [f for f in log.findings if f.rule is rules.UNUSED_SUPPRESSION]
    return [(str(f.facts["name"]), f.place.line if f.place else 0, str(f.facts["reason"])) for f in told]


@pytest.mark.parametrize("name", ["FXP4002", "PrecisionLowered", "fxp4", "FXP40, FXP1005"])
def test_a_rule_may_be_named_as_elsewhere_and_behind_another_comment(name: str, tmp_path: Path) -> None:
    text = f"def f(x):\n    return x  # noqa # fxport: ignore[{name}] meant\n"
    assert [each for each in unused(text, tmp_path / "m.py") if each[0] != "FXP1005"] == []


def test_a_comment_without_a_rule_or_with_an_unknown_one_is_told(tmp_path: Path) -> None:
    text = "def f(x):\n    return x  # fxport: ignore\n    # fxport: ignore[Nothing]\n"
    assert unused(text, tmp_path / "m.py") == [
        ("", 2, "the comment names no rule"),
        ("Nothing", 3, "no rule is called so"),
    ]


def test_an_error_without_which_there_is_no_model_cannot_be_ignored(file: str) -> None:
    log = Log()
    Path(file).write_text("def f(x):\n    return g(x)  # fxport: ignore[FXP3001] live with it\n", encoding="utf-8")
    log.report(rules.NO_ONNX_LOWERING, Place(file, 2), op="g")
    log.revise(by_comments())
    error, told = log.findings
    assert error.is_open
    assert told.message == (
        "The comment that ignores 'FXP3001' has no effect. Reason: an error that stops the export cannot be ignored."
    )


def test_models_of_the_file_that_did_not_run_are_left_alone(tmp_path: Path) -> None:
    text = """\
def helper(x):
    return x
def other(x):
    return x + 1  # fxport: ignore[FXP4001] it did not run
def model():
    return helper(1)  # fxport: ignore[FXP1005] gone
"""
    told = unused(text, tmp_path / "m.py", name="model")
    assert [line for _, line, _ in told] == [6]
    assert [line for _, line, _ in unused(text, tmp_path / "m.py")] == [4, 6]
    assert unused(text, tmp_path / "m.py", name="model", levels=levels(select=["FXP4"])) == []


def test_files_without_findings_are_read_when_named(file: str) -> None:
    log = Log()
    log.revise(by_comments([file, "/gone.py"]))
    assert len(log.findings) == 3
    assert log.worst is Level.WARNING


def test_comments_have_their_places(file: str) -> None:
    first = comments_in(file)[0]
    assert (first.line, first.column, first.reason) == (2, 17, "known, foo is ours")


@pytest.mark.parametrize("content", [b"\xff # fxport: ignore[FXP3001]", b"x = '''  # fxport: ignore[FXP3001]", b"\x00"])
def test_files_that_are_no_python_have_no_comments(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_bytes(content)
    assert comments_in(str(path)) == ()


def test_severity_ignore_and_select() -> None:
    assert levels(severity={"FXP5002": "warning", "StateMutated": "error"}) == {
        "FXP5002": Level.WARNING,
        "FXP1005": Level.ERROR,
    }
    assert levels(ignore=["FXP4001"]) == {"FXP4001": None}
    assert levels(ignore=["fxp40"]) == {"FXP4001": None, "FXP4002": None}
    selected = levels(select=["FXP5"], ignore=["FXP5001"])
    assert "FXP5002" not in selected
    assert selected["FXP5001"] is None
    assert selected["FXP1005"] is None
    assert "FXP3001" not in selected, "a failure is never silent"


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"ignore": ["FXP3001"]}, "stays an error"),
        ({"severity": {"FXP3001": "note"}}, "stays an error"),
        ({"severity": {"FXP5002": "loud"}}, "is no level"),
        ({"select": ["FXP0"]}, "no rule is called 'FXP0'"),
        ({"ignore": ["F"]}, "no rule is called 'F'"),
    ],
)
def test_what_cannot_be_wanted_is_one_line(wanted: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        levels(**wanted)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
