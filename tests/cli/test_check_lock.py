"""The baseline: what it keeps, what it tells, and that it is the same bytes for the same models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxport.diagnostics import BaselineState, Log, Place, rules
from fxport.diagnostics.report import FailOn
from fxport.exporter.checks import lock
from fxport.exporter.checks.facts import Facts, Sample
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.rows import Row, Verdict
from fxport.exporter.sources.usage import UsageError

FACTS = Facts(
    opset=23,
    nodes=12,
    bytes=3000,
    weights=2000,
    inputs={"x": "float32 [rows, 3]", "mask": "bool [rows]"},
    outputs={"y": "float32 [rows, 4]"},
    operators={"Gemm": 12},
    modules={"": 12},
    provider="cpu",
    samples=(Sample("sample", True, "y", 1e-6, 0.2514), Sample("resized", True, "y", 1e-6, 0.3)),
)


def row(name: str = "net", facts: Facts | None = FACTS, log: Log | None = None) -> Row:
    task = Task(Item(name, name, f"models.py:{name}", 23, "cpu"), Terms())
    found = Row(
        task, facts, (log or Log()).findings, [("load", 0.1)], 1.5, False, Verdict.PASSED, Place("models.py", 3)
    )
    return found.judged(FailOn.ERROR)


def missing(op: str) -> Log:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, at=Place("models.py", 7), op=op)
    return log


def told(now: Row, before: Row, fail_on: str = "error") -> list[str]:
    """Messages of what is new since `before`."""
    found = lock.compared(now, lock.updated({}, [before], [before.id]), FailOn(fail_on))
    return [finding.message for finding in found.findings if finding.baseline is BaselineState.NEW]


def test_the_file_reads_well_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / lock.NAME
    held = lock.updated({}, [row("b"), row("a", None, missing("aten.foo.default"))], ["a", "b"])
    lock.write(path, held)
    text = path.read_text(encoding="utf-8")
    identity = missing("aten.foo.default").findings[0].identity[:16]
    assert (
        text
        == f'''\
{{
 "version": 1,
 "models": {{
  "a": {{
   "findings": {{
    "{identity}": "FXP3001 No ONNX lowering for 'aten.foo.default'"
   }}
  }},
  "b": {{
   "nodes": 12,
   "weights": 2000,
   "inputs": {{
    "x": "float32 [rows, 3]",
    "mask": "bool [rows]"
   }},
   "outputs": {{
    "y": "float32 [rows, 4]"
   }},
   "error": {{
    "sample": 0.25,
    "resized": 0.3
   }}
  }}
 }}
}}
'''
    )
    assert lock.read(path) == held
    lock.write(path, lock.updated(lock.read(path), [row("a", None, missing("aten.foo.default")), row("b")], ["b", "a"]))
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2, "models": {}}', '{"version": 1, "models": {"a": {"x": 1}}}']
)
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / lock.NAME).write_text(text)
    with pytest.raises(UsageError, match="check --update"):
        lock.read(tmp_path / lock.NAME)
    assert lock.read(tmp_path / "nothing") == {}


def test_nothing_is_told_of_the_same_and_of_what_is_better() -> None:
    assert told(row(), row()) == []
    better = replace(FACTS, nodes=10, weights=1000, samples=(Sample("sample", True, "y", 0.0, 0.01),))
    assert told(row(facts=better), row()) == []
    assert lock.compared(row("other"), lock.updated({}, [row()], ["net"]), FailOn.ERROR) == row("other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": 13}, "'nodes of net' is more than in the baseline. It was 12; it is 13."),
        ({"weights": 4000}, "'weights of net' is more than in the baseline. It was 2 kB; it is 4 kB."),
        (
            {"samples": (Sample("sample", True, "y", 0.0, 0.7),)},
            "'error of net, sample' is more than in the baseline. It was 25% of the allowed error; "
            "it is 70% of the allowed error.",
        ),
        (
            {"outputs": {"y": "float32 [rows, 5]"}},
            "'output y of net' has changed. It was 'float32 [rows, 4]'; it is 'float32 [rows, 5]'.",
        ),
        (
            {"inputs": {"x": "float32 [rows, 3]"}},
            "'input mask of net' has changed. It was 'bool [rows]'; it is 'absent'.",
        ),
        (
            {"inputs": dict(reversed([*FACTS.inputs.items()]))},
            "'input order of net' has changed. It was 'x, mask'; it is 'mask, x'.",
        ),
    ],
)
def test_what_is_worse_is_told(change: dict[str, Any], message: str) -> None:
    assert told(row(facts=replace(FACTS, **change)), row()) == [message]


def test_a_broken_contract_fails_and_growth_warns() -> None:
    held = lock.updated({}, [row()], ["net"])
    broken = lock.compared(row(facts=replace(FACTS, outputs={})), held, FailOn.ERROR)
    assert (broken.verdict, broken.findings[0].rule) == (Verdict.FAILED, rules.CONTRACT_CHANGED)
    grown = lock.compared(row(facts=replace(FACTS, nodes=13)), held, FailOn.ERROR)
    assert (grown.verdict, grown.findings[0].rule) == (Verdict.PASSED, rules.GREW_SINCE_BASELINE)
    assert lock.compared(row(facts=replace(FACTS, nodes=13)), held, FailOn.WARNING).verdict is Verdict.FAILED


def test_findings_are_new_unchanged_or_gone() -> None:
    log = missing("aten.foo.default")
    held = lock.updated({}, [row(log=log)], ["net"])
    same = lock.compared(row(log=log), held, FailOn.ERROR)
    assert [finding.baseline for finding in same.findings] == [BaselineState.UNCHANGED]
    assert same.verdict is Verdict.FAILED, "a baseline does not excuse: the manifest's `expect` does"
    other = lock.compared(row(log=missing("aten.bar.default")), held, FailOn.ERROR)
    assert [(finding.baseline, finding.message) for finding in other.findings] == [
        (BaselineState.NEW, "No ONNX lowering for 'aten.bar.default'."),
        (BaselineState.ABSENT, "No ONNX lowering for 'aten.foo.default'."),
    ]
    assert lock.compared(row(), held, FailOn.ERROR).verdict is Verdict.PASSED


def test_an_update_keeps_what_it_did_not_see() -> None:
    held = lock.updated({}, [row("a"), row("b"), row("gone")], ["a", "b", "gone"])
    dead = replace(row("b", None), verdict=Verdict.NOT_CHECKED)
    near = replace(FACTS, samples=(Sample("sample", True, "y", 0.0, 0.31), Sample("resized", True, "y", 0.0, 0.9)))
    now = lock.updated(held, [row("a", near), dead], ["a", "b"])
    assert now == {"a": replace(held["a"], error={"sample": 0.25, "resized": 0.9}), "b": held["b"]}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"version": 1, "models": []}',
        '{"version": 1, "models": {"net": 1}}',
        '{"version": 1, "models": {"net": {"nodes": "many"}}}',
        '{"version": 1, "models": {"net": {"error": {"sample": "small"}}}}',
        '{"version": 1, "models": {"net": {"findings": ["FXP3001"]}}}',
        '{"version": 1, "models": {"net": {"other": {}}}}',
        "[]",
        "\x00",
    ],
)
def test_a_file_that_is_no_lock(text: str, tmp_path: Path) -> None:
    (tmp_path / "fxport.lock").write_text(text)
    with pytest.raises(UsageError, match=r"'fxport.lock' cannot be read: .*; restore it, or remove it and run"):
        lock.read(tmp_path / "fxport.lock")
