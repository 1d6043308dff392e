"""Findings that repeat one cause: joined, counted and named."""

from __future__ import annotations

from fxport.diagnostics import Level, Log, Place, rules
from fxport.diagnostics.grouped import grouped


def told(count: int, *, level: Level | None = None, path: str = "m.py") -> list[tuple[int, str]]:
    log = Log()
    for number in range(count):
        log.report(rules.STATE_MUTATED, Place(path, 3), level=level, name=f"b{number}", output=f"b{number}.updated")
    log.revise(grouped)
    return [(finding.count, finding.message) for finding in log.findings]


def test_many_of_one_line_are_one() -> None:
    ((count, message),) = told(5)
    assert count == 5
    assert message.startswith(
        "forward changes 'b0', so its new value became the output 'b0.updated'. And 4 more like it: "
    )
    assert message.endswith(": 'b1', 'b2', 'b3', ….")


def test_few_and_errors_and_what_is_not_python_stay_apart() -> None:
    assert len(told(3)) == 3
    assert len(told(5, level=Level.ERROR)) == 5
    assert len(told(5, path="model.onnx")) == 5


def test_training_mode_is_one_finding() -> None:
    log = Log()
    for number, op in enumerate(("batch_norm", "dropout", "batch_norm")):
        log.report(rules.TRAINING_MODE_CAPTURED, Place("m.py", 3 + number, module=f"m{number}x"), op=op)
    log.report(rules.RANDOMNESS_CAPTURED, Place("m.py", 4), op="dropout")
    log.report(rules.STATE_MUTATED, Place("m.py", 3), name="norm.running_mean", output="norm.running_mean.updated")
    log.report(rules.STATE_MUTATED, Place("m.py", 3), name="cache", output="cache.updated")
    log.revise(grouped)
    mode, other = log.findings
    assert (mode.rule, mode.count) == (rules.TRAINING_MODE_CAPTURED, 3)
    assert mode.message.endswith(
        "That is so for 3 calls of 'batch_norm', 'dropout'. What dropout gives is random. "
        "Statistics that it updates became 1 output."
    )
    assert other.facts["name"] == "cache"
