"""`fxport bench` and `fxport place`: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxport.diagnostics import rules
from fxport.exporter.cli import main
from fxport.exporter.cli.bench import duration, table
from fxport.ort_runner import Latency

Output = pytest.CaptureFixture[str]

SOURCE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).to(torch.int8) % 3


def model():
    return Net().eval(), (torch.randn(2, 4),)
"""


@pytest.fixture
def exported(tmp_path: Path, capsys: Output) -> tuple[str, str]:
    source, file = tmp_path / "net.py", tmp_path / "net.onnx"
    source.write_text(SOURCE)
    assert main(["export", f"{source}:model", "-o", str(file), "--no-validate"]) == 0
    capsys.readouterr()
    return str(file), f"{source}:model"


def test_both_sides_are_timed(exported: tuple[str, str], capsys: Output) -> None:
    file, source = exported
    assert main(["bench", file, "--against", source, "--runs", "3", "--warmup", "1", "--threads", "1"]) == 0
    _, onnxruntime, eager, last, *rest = capsys.readouterr().out.splitlines()
    assert rest[-1] == "torch.compile was not timed, since compiling takes a while; --compile times it, too"
    assert onnxruntime.startswith("ONNX Runtime, cpu")
    assert onnxruntime.endswith("1.00")
    assert eager.startswith("PyTorch, eager")
    assert float(eager.split()[-1]) > 0
    assert last.startswith("3 runs of each")


STEP = """
import torch


def loss(model, x, y):
    return torch.nn.functional.mse_loss(model(x), y)


def step():
    model = torch.nn.Linear(4, 2)
    return model, torch.optim.AdamW(model.parameters()), loss, (torch.randn(2, 8, 4), torch.randn(2, 8, 2))


def other():
    model = torch.nn.Linear(4, 2, bias=False)
    return model, torch.optim.AdamW(model.parameters()), loss, (torch.randn(2, 8, 4), torch.randn(2, 8, 2))
"""


def test_training_steps_are_timed(tmp_path: Path, capsys: Output) -> None:
    source, file = tmp_path / "task.py", str(tmp_path / "step.onnx")
    source.write_text(STEP)
    how = ["--accumulate", "2", "--clip-grad-norm", "1", "--steps", "3", "-o", file, "--no-validate"]
    assert main(["train-step", f"{source}:step", *how]) == 0
    capsys.readouterr()
    assert main(["bench", file, "--against", f"{source}:step", "--runs", "2", "--warmup", "1", "--threads", "1"]) == 0
    _, onnxruntime, eager, *_ = capsys.readouterr().out.splitlines()
    assert onnxruntime.startswith("ONNX Runtime, cpu")
    assert float(eager.split()[-1]) > 0
    assert main(["bench", file, "--against", f"{source}:other", "--runs", "1"]) == 2
    assert "takes 'param/bias', which the step of" in capsys.readouterr().err
    assert main(["bench", file, "--against", f"{source}:step", "--input", "x=2x4", "--runs", "1"]) == 2
    assert "timed with the batch of its SOURCE" in capsys.readouterr().err


def test_inputs_that_do_not_fit_are_refused(exported: tuple[str, str], capsys: Output) -> None:
    file, source = exported
    assert main(["bench", file, "--against", source, "--input", "x=2x5", "--runs", "1"]) == 1
    assert "ONNX Runtime failed to run the model" in capsys.readouterr().out
    assert main(["bench", source.partition(":")[0], "--against", source]) == 2
    assert "is no ONNX model" in capsys.readouterr().err


def test_units() -> None:
    assert [duration(x) for x in (2.0, 0.0123, 4.5e-6, 2e-7)] == ["2 s", "12.3 ms", "4.5 µs", "0.2 µs"]


def test_nodes_are_placed(exported: tuple[str, str], capsys: Output) -> None:
    file, _ = exported
    assert main(["place", file, "--provider", "cpu"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("cpu  ")
    assert "Mod 1" in out or "Gemm 1" in out


def test_a_node_without_a_kernel_is_told_at_its_line(exported: tuple[str, str], capsys: Output) -> None:
    file, source = exported
    assert main(["place", file, "--predict", "cuda", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {finding["rule"] for finding in found} == {rules.NODE_ELSEWHERE.id}
    places = {(finding["place"]["path"], finding["place"]["line"]) for finding in found}
    assert places == {(source.partition(":")[0], 11)}


def test_a_provider_that_does_not_come_up_is_refused(exported: tuple[str, str], capsys: Output) -> None:
    from fxport.ort_runner.providers import PROVIDERS, why_not

    if why_not(PROVIDERS["tensorrt"]) is None:
        pytest.skip("TensorRT works on this machine")
    assert main(["place", exported[0], "--provider", "tensorrt"]) == 2
    assert "does not work here" in capsys.readouterr().err


def test_an_unsteady_measurement_is_told() -> None:
    steady = Latency.of([1.0] * 10, "cpu", 1)
    unsteady = Latency.of([1.0] * 7 + [9.0] * 3, "cpu", 1)
    assert not any("unsteady" in line for line in table({"a": steady}, compiled=False))
    assert "unsteady: p90 of b is over 2 medians" in "\n".join(table({"a": steady, "b": unsteady}, compiled=False))
