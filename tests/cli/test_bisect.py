"""Where a difference comes from, from the command line: `fxport bisect`, and the stages that are told apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from fxport import Options, export
from fxport.diagnostics import Log
from fxport.exporter.cli import main
from fxport.exporter.sources.source import Source
from fxport.exporter.validation import origins
from fxport.exporter.validation.against_eager import samples_of, validation_of
from fxport.exporter.validation.attribution import OPTIMIZATION, Attribution, Subject, attribute
from fxport.exporter.validation.repro import repro_of
from fxport.fx_passes import pipeline
from fxport.fx_passes.base import fx_pass
from fxport.ort_runner import Samples, trials
from fxport.ort_runner.session import Opened

Output = pytest.CaptureFixture[str]
aten = torch.ops.aten

SOURCE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x):
        y = self.first(x)
        y = nn.functional.gelu(y)
        return self.second(y)


def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(3, 8),)
"""
PLUGIN = """\
import torch


def gelu(op, x, *, approximate="none"):
    return op.Gelu(x, approximate="tanh")


LOWERINGS = {torch.ops.aten.gelu.default: gelu}
"""


@pytest.fixture
def net(folder: Path) -> Path:
    (folder / "net.py").write_text(SOURCE)
    (folder / "rough.py").write_text(PLUGIN)
    return folder


def test_the_cause_is_told_at_its_line(net: Path, capsys: Output) -> None:
    assert main(["export", "net.py:net", "--plugin", "rough"]) == 1
    said = capsys.readouterr().out
    assert "Cause: lowering of aten.gelu.default: " in said
    assert "net.py:13:" in said
    assert main(["bisect", "net.onnx", "--against", "net.py:net", "--plugin", "rough"]) == 1
    said = capsys.readouterr().out
    assert "DIFFERENT  lowerings" in said
    assert "first difference: 'gelu', " in said
    assert "different by itself: 'gelu' (aten.gelu.default) at net.py:13" in said
    assert "compared in 2 sessions" in said


def test_a_file_that_is_not_what_is_exported_now(net: Path, capsys: Output) -> None:
    assert main(["export", "net.py:net", "--plugin", "rough", "--no-validate"]) == 0
    assert main(["validate", "net.onnx", "--against", "net.py:net"]) == 1
    said = capsys.readouterr().out
    assert "Cause: the file, which differs from an export of the model as it is now: " in said
    assert "net.py:13:" in said
    assert main(["validate", "net.onnx", "--against", "net.py:net", "--no-bisect"]) == 1
    assert "Cause: not looked for." in capsys.readouterr().out


def test_a_file_with_other_weights(folder: Path, capsys: Output) -> None:
    text = (
        "import torch\ndef net():\n    torch.manual_seed({seed})\n    return torch.nn.Linear(4, 3), (torch.ones(1, 4),)"
    )
    (folder / "linear.py").write_text(text.format(seed=1))
    assert main(["export", "linear.py:net", "--no-validate"]) == 0
    (folder / "linear.py").write_text(text.format(seed=22))
    assert main(["validate", "net.onnx", "--against", "linear.py:net"]) == 1
    assert "Cause: the file, whose weights are not the model's: " in capsys.readouterr().out


def test_equal_models_have_nothing_to_search(net: Path, capsys: Output) -> None:
    assert main(["export", "net.py:net"]) == 0
    assert main(["bisect", "net.onnx", "--against", "net.py:net"]) == 0
    assert "the search" not in capsys.readouterr().out


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x)
        return torch.exp(y) * 2


def attributed(tmp_path: Path, **options: Any) -> Attribution | None:
    """What a validation of `Scaled` tells."""
    model, x = Scaled(), torch.linspace(-2, 2, 12).reshape(3, 4)
    chosen, log = Options(**options), Log()
    program = export(model, (x,), options=chosen, log=log)
    path = program.save(tmp_path / "model.onnx")[0]
    told: list[Attribution] = []
    source = Source("scaled", model, (x,))
    validation_of(path, source, program, "cpu", log, isolate=False, options=chosen, told=told.append)
    return told[0] if told else None


def test_a_graph_that_pytorch_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @fx_pass
    def break_exp(gm: torch.fx.GraphModule, log: Log) -> bool:
        """Gives exp an argument that it does not have."""
        broken = [node for node in gm.graph.nodes if node.target is aten.exp.default and len(node.args) == 1]
        for node in broken:
            node.args = (*node.args, 3)
        return bool(broken)

    monkeypatch.setattr(pipeline, "NORMALIZE", (*pipeline.NORMALIZE, break_exp))
    found = attributed(tmp_path, lowerings={aten.exp.default: lambda op, x, *more: op.Neg(x)})
    assert found is not None
    assert found.stage == "pass break_exp"
    assert found.place is not None
    assert found.place.node == "exp"


def test_a_model_that_was_captured_wrongly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fxport.exporter.capture import driver

    right = next(attempt for attempt in driver.ATTEMPTS if attempt.name == "non-strict")

    def wrong(*given: Any) -> Any:
        program = right.capture(*given)
        for node in program.graph_module.graph.find_nodes(op="call_function", target=aten.sigmoid.default):
            node.target = aten.tanh.default
        return program

    monkeypatch.setattr(driver, "ATTEMPTS", (replace(right, name="wrong", capture=wrong),))
    found = attributed(tmp_path)
    assert found is not None
    assert found.stage == "capture"
    assert [step.equal for step in found.trail] == [False]
    assert found.place is not None
    assert found.place.node == "sigmoid"


def test_graph_optimization_is_told_from_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Scaled(), torch.linspace(-2, 2, 12).reshape(3, 4)
    program = export(model, (x,))
    path = program.save(tmp_path / "model.onnx")[0]
    source = Source("scaled", model, (x,))
    (case,) = samples_of(source, program, Log())
    run = trials.run_file

    def optimized_wrongly(
        path: Path, inputs: Mapping[str, np.ndarray], runtime: trials.Runtime
    ) -> tuple[Opened, dict[str, np.ndarray]]:
        opened, outputs = run(path, inputs, runtime)
        shift = np.float32(0.1 if runtime.optimize else 0)
        return opened, {name: array + shift for name, array in outputs.items()}

    monkeypatch.setattr(trials, "run_file", optimized_wrongly)
    found = attribute(Subject(path, source, program, Options(), "cpu", isolate=False), case, case)
    assert found.stage == OPTIMIZATION
    assert [step.equal for step in found.trail] == [True, True, True, True, False]


def test_what_cannot_be_told_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = torch.nn.Sequential(torch.nn.Dropout(0.5)).train(), torch.ones(3, 4)
    program = export(model, (x,))
    source = Source("dropout", model, (x,))
    case = Samples("sample", {"input": x.numpy()}, {"output": x.numpy()})
    found = attribute(Subject(tmp_path / "x.onnx", source, program, Options(), "cpu"), case, case)
    assert found.text == "cannot be told, because the model draws random numbers"

    def failing(*_: object, exact: bool) -> Attribution:
        raise RuntimeError("no luck")

    monkeypatch.setattr(origins, "attribute", failing)
    subject = Subject(tmp_path / "x.onnx", source, program, Options(), "cpu")
    explain = origins.explainer(subject, [case], lambda each: each, lambda found: None)
    origin = explain(case, ["output"], False)["output"]
    assert origin.text == "cannot be told, because the search failed: RuntimeError: no luck"
    assert origin.place is None


def test_the_search_for_an_origin_ends_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each output has one search, whatever it takes, and more for further samples only in the time for all of them."""
    now, asked = [0.0], list[tuple[str, tuple[str, ...]]]()

    def slow(subject: Subject, case: Samples, samples: Samples, *, exact: bool) -> Attribution:
        now[0] += origins.MOST_SECONDS * 0.6
        asked.append((samples.label, tuple(samples.outputs or ())))
        return Attribution(None, reason="nothing was found", samples=samples)

    monkeypatch.setattr(origins, "attribute", slow)
    monkeypatch.setattr(origins, "time", SimpleNamespace(monotonic=lambda: now[0]))
    array = np.zeros(1)
    cases = [Samples(label, {}, {"a": array, "b": array}) for label in ("one", "two", "three", "four")]
    program = export(torch.nn.ReLU(), (torch.ones(1),))
    subject = Subject(tmp_path / "x.onnx", Source("relu", torch.nn.ReLU(), ()), program, Options(), "cpu")
    explain = origins.explainer(subject, cases, lambda each: each, lambda found: None)
    for case in cases:
        outputs = ["a", "b"] if case.label == "four" else ["a"]
        found = explain(case, outputs, False)
        assert [found[name].text for name in outputs] == ["cannot be told, because nothing was found"] * len(outputs)
    assert asked == [("one", ("a",)), ("two", ("a",)), ("four", ("b",))]


class AfterElu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        below = torch.nn.functional.elu(x)
        above = torch.sin(below)
        return above * 2


def test_a_fault_behind_an_inexact_kernel_has_its_own_line(tmp_path: Path) -> None:
    """The kernel of Elu errs by more than its budget, too."""

    def scaled(op: Any, x: Any) -> Any:
        return op.Mul(op.Sin(x), op.const(1.0001, like=x))

    model, x = AfterElu(), torch.linspace(-1e-3, 1e-3, 2000)
    options = Options(lowerings={aten.sin.default: scaled})
    program, log = export(model, (x,), options=options), Log()
    path = program.save(tmp_path / "model.onnx")[0]
    validation_of(path, Source("model", model, (x,)), program, "cpu", log, isolate=False, options=options)
    assert {str(finding.facts["cause"]).partition(":")[0] for finding in log.findings} == {
        "lowering of aten.sin.default"
    }


class Apart(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        length = torch.linalg.vector_norm(x, dim=-1)
        root = torch.sign(x) * x.abs() ** 0.3
        return length, root, length + root.sum(-1)


def test_each_output_has_the_origin_that_it_is_made_of(tmp_path: Path) -> None:
    """Two faults, of which one is no part of the other output."""

    def scaled(op: Any, x: Any, *_: Any, **__: Any) -> Any:
        return op.Mul(op.ReduceL2(x, op.const([1]), keepdims=0), op.const(1.1, like=x))

    def powered(op: Any, x: Any, exponent: Any) -> Any:
        return op.Mul(op.Pow(x, op.const(exponent, like=x)), op.const(1.1, like=x))

    model, x = Apart(), torch.linspace(-2, 3, 2000).reshape(100, 20)
    options = Options(lowerings={aten.linalg_vector_norm.default: scaled, aten.pow.Tensor_Scalar: powered})
    program, log = export(model, (x,), options=options), Log()
    path = program.save(tmp_path / "model.onnx")[0]
    validation_of(path, Source("model", model, (x,)), program, "cpu", log, isolate=False, options=options)
    told = [str(finding.facts["cause"]).partition(":")[0] for finding in log.findings if "cause" in finding.facts]
    assert told[:3] == [
        "lowering of aten.linalg_vector_norm.default",
        "lowering of aten.pow.Tensor_Scalar",
        "lowering of aten.linalg_vector_norm.default",
    ]


class ByOne(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(x)
        scale = torch.exp(self.scale)
        return x * scale


def test_a_wrong_number_is_found_by_what_it_is_multiplied_with(tmp_path: Path) -> None:
    """By itself its error is that of one element, which may be bad luck."""

    def scaled(op: Any, x: Any) -> Any:
        return op.Mul(op.Exp(x), op.const(1.01, like=x))

    model, x = ByOne().half(), torch.linspace(-1, 1, 4000).reshape(50, 80).half()
    options = Options(lowerings={aten.exp.default: scaled})
    program, log = export(model, (x,), options=options), Log()
    path = program.save(tmp_path / "model.onnx")[0]
    validation_of(path, Source("model", model, (x,)), program, "cpu", log, isolate=False, options=options)
    assert {finding.place.node for finding in log.findings if finding.place} == {"exp"}


class TwoResults(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        below = torch.relu(x)
        above = torch.exp(x)
        return below, above


def test_each_output_has_a_cause_of_its_own(tmp_path: Path) -> None:
    """One goes wrong below zero, the other above one: they are not seen with the same inputs."""

    def leaky(op: Any, x: Any) -> Any:
        return op.LeakyRelu(x, alpha=0.5)

    def cut(op: Any, x: Any) -> Any:
        return op.Exp(op.Min(x, op.const(1.0, like=x)))

    model, below, above = TwoResults(), torch.full((2, 3), -1.0), torch.full((2, 3), 2.0)
    options = Options(lowerings={torch.ops.aten.relu.default: leaky, torch.ops.aten.exp.default: cut})
    program, log = export(model, (below,), options=options), Log()
    path = program.save(tmp_path / "two.onnx")[0]
    source = Source("two", model, (below,), label="below", further={"above": ((above,), {})})
    validation_of(path, source, program, "cpu", log, isolate=False, options=options)
    found = {finding.facts["output"]: (finding.facts["sample"], finding.facts["cause"]) for finding in log.findings}
    assert {output: sample for output, (sample, _) in found.items()} == {"output.0": "below", "output.1": "above"}
    assert "lowering of aten.relu.default" in str(found["output.0"][1])
    assert "lowering of aten.exp.default" in str(found["output.1"][1])


def test_a_repro_shows_the_failure_by_itself(net: Path, capsys: Output) -> None:
    assert main(["export", "net.py:net", "--plugin", "rough", "--repro", "small"]) == 1
    assert "repro: 1 node in small, seen to fail with FXP5002" in capsys.readouterr().out
    script = Path("small/run.py").read_text()
    assert len(script.splitlines()) < 40
    assert "lowering of aten.gelu.default" in script
    shown = subprocess.run([sys.executable, "small/run.py"], capture_output=True, text=True, check=False)
    assert shown.returncode == 1, shown.stderr
    assert "output 0: worst error " in shown.stdout
    assert sorted(file.name for file in Path("small").iterdir()) == ["model.onnx", "run.py", "values.npz"]
    assert main(["export", "net.py:net", "--repro", "none"]) == 0
    assert not Path("none").exists()
    assert main(["validate", "net.onnx", "--against", "net.py:net", "--repro", "net.py"]) == 2


def test_where_no_operation_can_be_told_the_whole_model_is_the_repro(tmp_path: Path) -> None:
    model, x = torch.nn.Sequential(torch.nn.Dropout(0.5)).train(), torch.ones(3, 4)
    program = export(model, (x,))
    path = program.save(tmp_path / "model.onnx")[0]
    samples = Samples("sample", {"input": x.numpy()}, {"output": x.numpy()[:2]})
    lines: list[str] = []
    found = Attribution(None, reason="the model draws random numbers", samples=samples)
    repro_of(tmp_path / "small", path, "cpu", lines)(found)
    count = len(list(program.model.graph))
    assert lines == [f"repro: {count} nodes in {tmp_path / 'small'}, seen to fail with FXP5004"]
    right = Attribution(None, samples=Samples("sample", samples.inputs, {}))
    repro_of(tmp_path / "right", path, "cpu", lines)(right)
    assert "not written" in lines[1]
    assert not (tmp_path / "right").exists()


def test_a_prediction_is_told_and_an_unknown_provider_refused(net: Path, capsys: Output) -> None:
    assert main(["export", "net.py:net", "--no-validate", "--predict", "cuda"]) == 0
    assert "predicted on cuda: " in capsys.readouterr().out
    assert main(["export", "net.py:net", "--predict", "cudo"]) == 2
    assert "Did you mean 'cuda'" in capsys.readouterr().err


def test_layers_of_pytorchs_own_have_no_line_of_the_users(tmp_path: Path) -> None:
    """Nothing is placed in a file of the search's own, which is gone afterwards."""
    model, x, log = torch.nn.Sequential(torch.nn.GELU()), torch.randn(3, 4), Log()
    options = Options(lowerings={aten.gelu.default: lambda op, x, **_: op.Gelu(x, approximate="tanh")})
    program = export(model, (x,), options=options)
    path = program.save(tmp_path / "model.onnx")[0]
    validation_of(path, Source("model", model, (x,)), program, "cpu", log, isolate=False, options=options)
    (found,) = log.findings
    assert str(found.facts["cause"]).startswith("lowering of aten.gelu.default")
    assert found.place is not None
    assert found.place.path == str(path)
