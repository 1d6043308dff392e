"""Mistakes of a command line and of what it names, told as what they are."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from fxport.diagnostics import Finding, Level, Log, Stop, rules, sarif
from fxport.diagnostics.report import FailOn
from fxport.diagnostics.text import advice_of
from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.pool import Outcome
from fxport.exporter.checks.rows import row_of
from fxport.exporter.cli import main
from fxport.exporter.cli.bisect import told_below
from fxport.exporter.sources.outputs import require_file
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.packages import running_a_package
from fxport.exporter.validation.training_step import roundings_advised
from fxport.ort_runner.failures import Failure

Output = pytest.CaptureFixture[str]


def test_an_output_that_ends_as_a_folder(folder: Path, capsys: Output) -> None:
    assert main(["export", "models.py:adder", "-o", "newfolder/"]) == 2
    assert "'newfolder/' names a folder; name a file in it, such as 'newfolder/model.onnx'." in capsys.readouterr().err


def test_a_step_has_no_option_for_its_arguments(folder: Path, capsys: Output) -> None:
    (folder / "step_of_two.py").write_text("def step(model, batch):\n    pass\n")
    assert main(["train-step", "step_of_two.py:step", "-o", "step.onnx"]) == 2
    said = capsys.readouterr().err
    assert "; name a function without parameters that returns (model, optimizer," in said
    assert "--init" not in said


def test_a_mistake_in_a_source_is_no_matter_of_limits(folder: Path) -> None:
    result = {"sarif": sarif.to_sarif(Log()), "facts": None, "stages": [], "place": None, "raised": None}
    outcome = Outcome(
        Task(Item(id="net", model="net", source="net.py:Net", opset=None, provider="cpu"), Terms()),
        {**result, "mistake": ("source", "Importing 'net.py' raised SyntaxError at net.py:3: invalid syntax.")},
        None,
        0.1,
    )
    (folder / "fxport.toml").write_text('[[model]]\nname = "net"\nsource = "net.py:Net"\n')
    (finding,) = row_of(outcome, folder / "fxport.toml", FailOn.ERROR).findings
    assert finding.message.endswith(": invalid syntax.")
    assert advice_of(finding) == "Correct it; `fxport export net.py:Net` tries this model alone."


def test_a_file_that_cannot_be_written_is_named_whole(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(UsageError, match=r"--sarif '.*x\.sarif' cannot be written: "):
        require_file(tmp_path / "x.sarif", "--sarif")


def test_a_gradient_of_rounding_errors_alone_is_told_as_such() -> None:
    def found(output: str) -> Finding:
        return Finding(rules.NOT_COMPARABLE, Level.WARNING, "", facts={"output": output, "detail": "much"})

    momentum, loss = roundings_advised([found("new/opt/conv.bias/momentum_buffer"), found("loss")])
    assert advice_of(momentum).startswith("If the gradient is zero but for rounding, as that of a bias before batch")
    assert loss.fixes == ()


def test_a_bisection_does_not_advise_itself() -> None:
    (found,) = told_below([Finding(rules.OUTPUT_DRIFT, Level.ERROR, "")])
    assert advice_of(found) == "Look at the marked line; the search that led there is told below."


def test_what_fails_in_a_package_has_no_marked_line() -> None:
    log = Log()
    with pytest.raises(Stop), running_a_package(log, "generate"):
        raise Failure(rules.RUNTIME_FAILED, {"error": "indices out of bounds"})
    (found,) = log.findings
    assert "marked line" not in advice_of(found)
    assert "token ids are below the size of the vocabulary" in advice_of(found)
