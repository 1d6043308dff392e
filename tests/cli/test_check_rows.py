"""What becomes of a result: budgets, expectations, the verdict; and the cache that keeps it."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ByteSize

from fxport.diagnostics import Log, Place, rules, sarif
from fxport.diagnostics.model import Level
from fxport.diagnostics.report import FailOn
from fxport.exporter.checks.cache import Cache
from fxport.exporter.checks.facts import Facts, Sample
from fxport.exporter.checks.items import Item, Task, Terms, tasks_of
from fxport.exporter.checks.manifest import Budget, load
from fxport.exporter.checks.pool import Outcome
from fxport.exporter.checks.rows import Row, Verdict, row_of
from fxport.exporter.checks.work import result_of
from fxport.exporter.cli.check.run import exit_code

ITEM = Item("net", "net", "models.py:net", 23, "cpu")
FACTS = Facts(
    opset=23,
    nodes=12,
    bytes=3000,
    weights=2000,
    inputs={"x": "float32 [rows, 3]"},
    outputs={"y": "float32 [rows, 4]"},
    operators={"Gemm": 12},
    modules={"": 2, "layer": 10},
    provider="cpu",
    samples=(Sample("sample", True, "y", 1e-6, 0.25),),
    latency=0.002,
    eager=0.001,
)


NO_TERMS = Terms()


def outcome(log: Log, facts: Facts | None, terms: Terms) -> Outcome:
    result = {
        "sarif": sarif.to_sarif(log, default_place=Place("models.py", 1)),
        "facts": asdict(facts) if facts else None,
        "stages": [["load", 0.1]],
        "place": ["models.py", 3],
        "files": [],
        "mistake": None,
    }
    return Outcome(Task(ITEM, terms), result, None, 0.2)


def row(log: Log | None = None, facts: Facts | None = FACTS, terms: Terms = NO_TERMS, fail_on: str = "error") -> Row:
    return row_of(outcome(log or Log(), facts, terms), Path("fxport.toml").resolve(), FailOn(fail_on))


def ids(found: Row) -> list[str]:
    return [finding.rule.id for finding in found.findings if finding.is_open]


def missing() -> Log:
    log = Log()
    log.report(rules.NO_ONNX_LOWERING, at=Place("models.py", 7), op="aten.foo.default")
    return log


def test_a_sound_model_passes() -> None:
    found = row()
    assert (found.verdict, found.facts, found.stages) == (Verdict.PASSED, FACTS, [("load", 0.1)])
    assert exit_code([found]) == 0


def test_findings_come_back_as_they_were() -> None:
    found = row(missing(), None)
    assert (found.verdict, ids(found)) == (Verdict.FAILED, ["FXP3001"])
    (finding,) = found.findings
    assert finding.place is not None
    assert (Path(finding.place.path).name, finding.place.line) == ("models.py", 7)
    assert finding.identity == missing().findings[0].identity
    assert exit_code([found]) == 1


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ({"nodes": 11}, "'nodes of net' is over the budget. It is 12; the budget is 11."),
        ({"bytes": 2999}, "'bytes of net' is over the budget. It is 3 kB; the budget is 3 kB."),
        ({"latency": 1.5}, "'latency of net' is over the budget. It is 2; the budget is 1.5."),
        ({"error": 0.2}, "'error of net' is over the budget. It is 0.25; the budget is 0.2."),
    ],
)
def test_each_budget_is_held(budget: dict[str, Any], said: str) -> None:
    found = row(terms=Terms(Budget(**budget)))
    assert [finding.message for finding in found.findings] == [said]
    assert (found.findings[0].rule, found.findings[0].place) == (rules.BUDGET_EXCEEDED, Place("models.py", 3))
    assert found.verdict is Verdict.FAILED


def test_what_is_within_the_budget_is_not_told() -> None:
    assert row(terms=Terms(Budget(nodes=12, bytes=ByteSize(3000), latency=2.0, error=0.25))).findings == []
    untimed = replace(FACTS, latency=None, samples=())
    assert row(facts=untimed, terms=Terms(Budget(latency=0.1, error=0.1))).findings == []


def test_what_is_expected_is_suppressed_and_what_is_expected_in_vain_is_told() -> None:
    found = row(missing(), None, Terms(expect=("FXP3001",)))
    assert (found.verdict, ids(found), exit_code([found])) == (Verdict.EXPECTED, [], 0)
    found = row(terms=Terms(expect=("FXP3001",)))
    assert (found.verdict, ids(found)) == (Verdict.FAILED, ["FXP9004"])
    assert row(missing(), None, Terms(expect=("FXP5002",))).verdict is Verdict.FAILED


def test_the_level_that_fails() -> None:
    log = Log()
    log.report(rules.TRAINING_MODE_CAPTURED, at=Place("models.py", 7), op="dropout")
    assert row(log).verdict is Verdict.PASSED
    assert row(log, fail_on="warning").verdict is Verdict.FAILED
    assert row(missing(), None, fail_on="never").verdict is Verdict.PASSED


def test_a_dead_process_is_one_finding_and_a_fault_of_ours_is_exit_code_3() -> None:
    lost = Outcome(Task(ITEM, Terms()), None, "its process was killed by SIGKILL", 1.0)
    dead = row_of(lost, Path("fxport.toml"), FailOn.ERROR)
    assert (dead.verdict, ids(dead), dead.facts) == (Verdict.NOT_CHECKED, ["FXP9003"], None)
    assert "SIGKILL" in dead.findings[0].message
    log = Log()
    log.report(rules.INTERNAL_ERROR, error="planted", level=Level.ERROR)
    assert exit_code([dead]) == 1
    assert exit_code([row(), dead, row(log, None)]) == 3


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    for name in ("models.py", "weights.bin"):
        (tmp_path / name).write_text(name)
    return Cache(tmp_path / "cache", tmp_path, "today")


def made_of(cache: Cache, *names: str) -> dict[str, Any]:
    return {"facts": None, "files": [str(cache.project / name) for name in names]}


def test_an_unchanged_item_is_found(cache: Cache) -> None:
    assert cache.get(ITEM) is None
    result = made_of(cache, "models.py")
    cache.put(ITEM, result)
    assert cache.get(ITEM) == result
    os.utime(cache.project / "models.py")
    assert cache.get(ITEM) == result, "another time of the same content"


@pytest.mark.parametrize("text", ["models.pz", "another length", None])
def test_a_changed_file_is_seen(cache: Cache, text: str | None) -> None:
    cache.put(ITEM, made_of(cache, "models.py"))
    path = cache.project / "models.py"
    path.unlink()
    if text is not None:
        path.write_text(text)
        os.utime(path, (1, 1))
    assert cache.get(ITEM) is None


def test_other_options_versions_and_formats_are_others(cache: Cache) -> None:
    cache.put(ITEM, made_of(cache, "models.py"))
    assert cache.get(replace(ITEM, opset=18)) is None
    assert replace(cache, environment="tomorrow").get(ITEM) is None
    (file,) = cache.folder.iterdir()
    for text in ("{", "[]", '{"version": 0}', '{"version": 1, "files": {"x": 3}}'):
        file.write_text(text)
        assert cache.get(ITEM) is None


def test_files_that_the_manifest_names(cache: Cache) -> None:
    item = replace(ITEM, depends=("*.bin",))
    cache.put(item, made_of(cache, "models.py"))
    assert cache.get(item) is not None
    (cache.project / "more.bin").write_text("")
    assert cache.get(item) is None, "a new file fits the pattern"
    cache.put(item, made_of(cache, "models.py"))
    (cache.project / "weights.bin").write_text("weights.bim")
    assert cache.get(item) is None


def test_levels_of_rules_are_the_users() -> None:
    log = Log()
    log.report(rules.STATE_MUTATED, name="calls", output="calls.updated")
    log.report(rules.RANDOMNESS_CAPTURED, op="aten.rand.default")
    levels = {rules.STATE_MUTATED.id: Level.ERROR, rules.RANDOMNESS_CAPTURED.id: None}
    told = row(log).told(levels, FailOn.ERROR)
    assert [(finding.rule, finding.level) for finding in told.findings] == [(rules.STATE_MUTATED, Level.ERROR)]
    assert (row(log).verdict, told.verdict) == (Verdict.PASSED, Verdict.FAILED)


MISTAKEN = """\
[[model]]
name = "typo"
source = "row_models.py:goood"

[[model]]
name = "no-file"
source = "none.py:good"

[[model]]
name = "no-argument"
source = "row_models.py:good"
inputs = { y = "2x3" }

[[model]]
name = "no-samples"
source = "row_models.py:good"
samples = "none.npz"

[[model]]
name = "no-dim"
source = "row_models.py:good"
dynamic.y = "0=rows"

[[model]]
name = "no-weights"
source = "row_models.py:good"
weights = "none.pt"
"""
GOOD = "import torch\n\ndef good():\n    return torch.nn.Linear(3, 4).eval(), (torch.ones(2, 3),)\n"
LINES = {"typo": 3, "no-file": 7, "no-argument": 12, "no-samples": 17, "no-dim": 22, "no-weights": 27}


def test_each_stage_is_told_once(folder: Path) -> None:
    told: list[str] = []
    result = result_of(Item("m", "m", "row_models.py:with_inputs", 23, "cpu"), folder / "model.onnx", {}, told.append)
    assert sorted(told) == sorted(name for name, _ in result["stages"])


def test_what_the_manifest_says_wrongly_is_found_at_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = tmp_path / "fxport.toml"
    manifest.write_text(MISTAKEN, encoding="utf-8")
    (tmp_path / "row_models.py").write_text(GOOD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = {}
    for task in tasks_of(load(manifest)):
        result = result_of(task.item, tmp_path / "model.onnx", {}, lambda _: None)
        (finding,) = row_of(Outcome(task, result, None, 0.1), manifest, FailOn.ERROR).findings
        assert finding.rule == rules.NOT_CHECKED
        assert finding.place is not None
        assert Path(finding.place.path) == manifest
        found[task.item.id] = finding.place.line
    assert found == LINES
