"""Log: merging, stages, Stop, levels, and a report that never raises."""

from __future__ import annotations

import linecache
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fxport.diagnostics import Fix, Level, Log, Place, Rule, Stop, rules
from fxport.diagnostics.log import MAX_RELATED
from fxport.diagnostics.messages import error_line, written


def at(line: int = 3, module: str | None = "layer.0.attn", path: str = "m.py") -> Place:
    return Place(path, line, module=module)


def test_equal_layers_are_one_finding() -> None:
    log = Log()
    for layer in range(96):
        log.report(rules.NO_ONNX_LOWERING, at(module=f"layer.{layer}.attn"), op="aten.foo.default")
    (finding,) = log.findings
    assert finding.count == 96
    assert finding.place is not None
    assert finding.place.module == "layer.0.attn"
    assert [place.module for place in finding.related] == [f"layer.{layer}.attn" for layer in range(1, 96)]


def test_places_are_kept_as_far_as_github_takes_them() -> None:
    log = Log()
    for layer in range(MAX_RELATED + 100):
        log.report(rules.NO_ONNX_LOWERING, at(module=f"layer.{layer}.attn"), op="aten.foo.default")
    (finding,) = log.findings
    assert (finding.count, len(finding.related)) == (MAX_RELATED + 100, MAX_RELATED)


def test_the_same_place_again_only_counts() -> None:
    log = Log()
    for _ in range(3):
        log.report(rules.NO_ONNX_LOWERING, at(), op="a")
    assert [(finding.count, finding.related) for finding in log.findings] == [(3, ())]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"op": "a"}, {"op": "b"}),
        ({"dim": "a"}, {"dim": "b"}),
        ({"input": "a"}, {"input": "b"}),
        ({"output": "a"}, {"output": "b"}),
        ({"name": "a"}, {"name": "b"}),
    ],
)
def test_what_names_a_cause_tells_findings_apart(one: dict[str, str], other: dict[str, str]) -> None:
    log = Log()
    log.report(rules.CAPTURE_FAILED, at(), **one)
    log.report(rules.CAPTURE_FAILED, at(), **other)
    assert len(log.findings) == 2


def test_identity_has_no_line_no_index_and_no_metric() -> None:
    log = Log()
    first = log.report(rules.OUTPUT_DRIFT, at(3, "layer.0.attn"), output="y", ratio=2.0)
    moved = log.report(rules.OUTPUT_DRIFT, at(9, "layer.7.attn"), output="y", ratio=3.0)
    assert first.identity == moved.identity


def test_an_index_is_a_whole_part_of_the_module_path() -> None:
    log = Log()
    one = log.report(rules.CAPTURE_FAILED, at(module="block1.conv"))
    other = log.report(rules.CAPTURE_FAILED, at(module="block2.conv"))
    assert one.identity != other.identity


def test_without_a_module_the_file_is_the_owner() -> None:
    log = Log()
    identities = {log.report(rules.CAPTURE_FAILED, at(module=None, path=path)).identity for path in ("a.py", "b.py")}
    assert len(identities) == 2


def test_two_branches_of_one_file_are_two_causes_and_survive_a_move(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    branch = "class {0}:\n    def forward(self, x):\n        if {1}:\n            return x\n"

    def identities(text: str, *lines: int) -> set[str]:
        file.write_text(text, encoding="utf-8")
        linecache.clearcache()
        log = Log()
        places = [Place(str(file), line) for line in lines]
        return {log.report(rules.DATA_DEPENDENT_CONTROL_FLOW, place, detail="x").identity for place in places}

    one, other = (branch.format(name, "x.sum() > 0") for name in "AB")
    text = f"{one}        if x.min() > 0:\n            return x\n{other}"
    found = identities(text, 3, 5, 9)
    assert len(found) == 3
    assert identities("import torch\n\n" + text, 5, 7, 11) == found


def test_identity_is_the_same_in_another_checkout(tmp_path_factory: pytest.TempPathFactory) -> None:
    identities = set()
    for _ in range(2):
        root = tmp_path_factory.mktemp("checkout")
        (root / ".git").mkdir()
        identities.add(Log().report(rules.CAPTURE_FAILED, Place(str(root / "src" / "m.py"), 1)).identity)
    assert len(identities) == 1


def test_the_worst_level_of_a_merged_finding_stays() -> None:
    log = Log()
    for level in (Level.NOTE, Level.ERROR, Level.WARNING):
        log.report(rules.PROVIDER_FELL_BACK, level=level, used="cpu", provider="cuda")
    assert [finding.level for finding in log.findings] == [Level.ERROR]


def test_message_is_the_template_with_the_facts() -> None:
    finding = Log().report(rules.DIMENSION_SPECIALIZED, dim="batch", input="x", value=4)
    assert finding.message == (
        "Dimension 'batch' of input 'x' was asked to be dynamic but is fixed by the code. The model takes 4."
    )
    assert finding.facts == {"dim": "batch", "input": "x", "value": 4}


def test_a_fact_with_a_mark_at_its_end_takes_no_period() -> None:
    finding = Log().report(rules.CAPTURE_FAILED, error="two devices were found!")
    assert finding.message == "torch.export could not capture the model. It said: two devices were found!"


def test_a_missing_fact_costs_its_sentence_and_an_unknown_one_is_appended() -> None:
    finding = Log().report(rules.OUTPUT_DRIFT, output="y", provider="cpu", seed=7)
    assert finding.message == "Output 'y' differs from PyTorch on 'cpu'. (seed: '7')"


def test_what_a_message_has_said_is_not_appended_under_another_name() -> None:
    said = written("It says '{error}'. Seen with '{sample}'.", {"error": "no argument", "detail": "no argument"})
    assert said == "It says 'no argument'."


def test_a_fact_of_the_wrong_type_does_not_raise() -> None:
    finding = Log().report(rules.OUTPUT_DRIFT, output="y", provider="cpu", ratio="much", worst=None)
    assert finding.message.startswith("Output 'y' differs from PyTorch on 'cpu'.")


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")

    def item(self) -> object:
        raise RuntimeError("no")


@pytest.mark.parametrize("template", ["{op", "{0} {}", "{op.x.y}", "{op:%%%}", "{op!z}", "{op[0]}"])
@pytest.mark.parametrize(
    "fact", [Hostile(), None, 3, "x" * 10_000, "\ud800", float("nan"), [Hostile()], {Hostile(): 1}]
)
def test_report_never_raises(template: str, fact: object) -> None:
    finding = Log().report(Rule("FXP0000", "Broken", Level.NOTE, template), op=fact)
    assert isinstance(finding.message, str)


class Scalar:
    def item(self) -> float:
        return 2.5


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("\n two of three.\nand more"), "ValueError: two of three"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (Silent(), "Silent: <Silent>"),
    ],
)
def test_an_exception_is_one_line(error: Exception, line: str) -> None:
    assert error_line(error) == line


def test_facts_are_plain_so_that_a_log_keeps_nothing_alive() -> None:
    finding = Log().report(
        rules.CAPTURE_FAILED,
        error=ValueError("a\nb"),
        size=Scalar(),
        shape=(1, Scalar()),
        kind=Level.NOTE,
        more={1: Scalar()},
    )
    assert finding.facts == {
        "error": "ValueError: a\nb",
        "size": 2.5,
        "shape": (1, 2.5),
        "kind": "note",
        "more": {"1": 2.5},
    }
    assert finding.message == "torch.export could not capture the model. It said: ValueError: a."


def test_report_costs_microseconds() -> None:
    log, place = Log(), at()
    best = min(_seconds(lambda: log.report(rules.NO_ONNX_LOWERING, place, op="aten.foo.default")) for _ in range(5))
    assert best < 200e-6  # about 5e-6 on one core; the rest is room for a slow machine


def _seconds(work, times: int = 200) -> float:
    start = time.process_time()  # not that of others on this machine
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def test_stages_are_timed_by_the_clock_that_is_given() -> None:
    ticks = iter((1.0, 1.5, 2.0, 5.0))
    log = Log(clock=lambda: next(ticks))
    for name in ("capture", "lower"):
        with log.stage(name):
            pass
    assert log.stages == [("capture", 0.5), ("lower", 3.0)]


def test_a_stage_stops_after_all_its_findings_are_in() -> None:
    log = Log()

    def work() -> None:
        with log.stage("lower"):
            for op in ("a", "b"):
                log.report(rules.NO_ONNX_LOWERING, at(), op=op)
            log.report(rules.STATE_MUTATED, name="n", output="o")

    with pytest.raises(Stop) as stopped:
        work()
    assert stopped.value.log is log
    assert str(stopped.value) == "2 errors in stage 'lower': No ONNX lowering for 'a'."
    assert len(log.findings) == 3
    assert [name for name, _ in log.stages] == ["lower"]


def test_a_stage_does_not_stop_for_errors_of_an_earlier_one_or_for_warnings() -> None:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, op="a")
    with log.stage("finish"):
        log.report(rules.PROVIDER_FELL_BACK, used="cpu", provider="cuda")
        log.report(rules.NO_ONNX_LOWERING, op="b", level=Level.WARNING)
    assert log.worst is Level.ERROR


def test_an_error_that_was_seen_before_stops_again() -> None:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, op="a")
    with pytest.raises(Stop, match="1 error in stage 'lower'"), log.stage("lower"):
        log.report(rules.NO_ONNX_LOWERING, op="a")


def test_other_exceptions_fly_untouched_and_the_stage_is_timed() -> None:
    log = Log()
    error = KeyError("ours")

    def work() -> None:
        with log.stage("lower"):
            log.report(rules.NO_ONNX_LOWERING, op="a")
            raise error

    with pytest.raises(KeyError) as raised:
        work()
    assert raised.value is error
    assert raised.value.__context__ is None
    assert [name for name, _ in log.stages] == ["lower"]


def test_a_stop_from_inside_flies_on_as_itself() -> None:
    log = Log()
    with pytest.raises(Stop) as stopped, log.stage("outer"), log.stage("inner"):
        log.report(rules.NO_ONNX_LOWERING, op="a")
    assert stopped.value.stage == "inner"
    assert [name for name, _ in log.stages] == ["inner", "outer"]


def test_progress_is_told_with_the_name_of_the_stage() -> None:
    seen: list[tuple[str, int, int]] = []
    log = Log(progress=lambda stage, done, total: seen.append((stage, done, total)))
    with log.stage("lower"):
        log.advance(1, 2)
    assert seen == [("lower", 0, 0), ("lower", 1, 2)]


def test_levels_override_and_silence() -> None:
    log = Log(levels={"FXP5002": Level.WARNING, "FXP1005": None, "FXP6004": Level.ERROR})
    with log.stage("validate"):
        log.report(rules.OUTPUT_DRIFT, output="y", provider="cpu", ratio=2.0, worst=1.0)
        log.report(rules.STATE_MUTATED, name="n", output="o")
        log.report(rules.PROVIDER_FELL_BACK, used="cpu", provider="cuda", detail="no driver")
    assert [(finding.rule.id, finding.level) for finding in log.findings] == [
        ("FXP5002", Level.WARNING),
        ("FXP6004", Level.ERROR),
    ]


def test_worst_is_none_for_an_empty_log_and_counts_only_open_findings() -> None:
    log = Log()
    assert log.worst is None
    log.report(rules.OUTPUT_DRIFT, output="y")
    log.report(rules.STATE_MUTATED, name="n", output="o")
    log.revise(lambda findings: [replace(f, level=Level.WARNING) if f.rule.id == "FXP5002" else f for f in findings])
    assert log.worst is Level.WARNING


def test_the_first_report_decides_on_message_and_fixes() -> None:
    log = Log()
    log.report(rules.LOWERING_RAISED, at(), op="a", error="first", fixes=[Fix("one")])
    log.report(rules.LOWERING_RAISED, at(), op="a", error="second", fixes=[Fix("two")])
    (finding,) = log.findings
    assert "first" in finding.message
    assert finding.fixes == (Fix("one"),)
