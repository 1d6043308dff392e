"""Providers: one that does not come up is said loudly, and "auto" takes what works."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from fxport.diagnostics import Level, Log, rules
from fxport.ort_runner import PROVIDERS, DeviceSession, Samples, latency, placement, resolve, validate
from fxport.ort_runner.distributed import RankSession
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.placement import Placed, copies
from fxport.ort_runner.providers import PROBE, Provider, captured_output, choose, why_not
from fxport.ort_runner.train import TrainingSession
from tests.ort_runner.models import RELU, floats, relu_samples, save

GPU_WORKS = why_not(PROVIDERS["cuda"]) is None
without_gpu = pytest.mark.skipif(GPU_WORKS, reason="the CUDA provider comes up on this machine")


def test_the_probe_is_the_model_it_says() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float x) => (float y) { y = Neg(x) }'
    model = onnx.load_from_string(PROBE)
    onnx.checker.check_model(model, full_check=True)
    assert model == onnx.parser.parse_model(text)
    assert why_not(PROVIDERS["cpu"]) is None


def test_auto_takes_the_gpu_or_the_cpu_and_says_which() -> None:
    log = Log()
    assert resolve("auto", log).name == ("cuda" if GPU_WORKS else "cpu")
    assert resolve("cpu", log).name == "cpu"
    assert not log.findings


@without_gpu
@pytest.mark.parametrize("name", ["cuda", "tensorrt"])
def test_a_provider_that_does_not_come_up_is_an_error(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    log = Log()
    assert resolve(name, log).name == "cpu"
    (finding,) = log.findings
    assert finding.rule is rules.PROVIDER_FELL_BACK
    assert finding.level is Level.ERROR
    assert finding.facts["provider"] == name
    assert finding.facts["used"] == "cpu"
    assert capfd.readouterr() == ("", "")  # ONNX Runtime's own complaints are caught


@without_gpu
@pytest.mark.parametrize("isolate", [True, False])
def test_no_silent_run_on_the_cpu(tmp_path: Path, isolate: bool) -> None:
    log = Log()
    done = validate(save(tmp_path, RELU), [relu_samples()], "cuda", log, isolate=isolate)
    assert done.provider == "cpu"
    assert not done.passed
    assert done.samples[0].passed  # the values themselves are right
    assert [finding.rule for finding in log.findings] == [rules.PROVIDER_FELL_BACK]
    for ask in (
        lambda: placement(tmp_path / "model.onnx", "cuda"),
        lambda: latency(tmp_path / "model.onnx", {}, "cuda"),
        lambda: DeviceSession(tmp_path / "model.onnx", "cuda"),
        lambda: TrainingSession(tmp_path / "model.onnx", {}, provider="cuda"),
        lambda: RankSession(tmp_path / "model.onnx", lambda _, array, __: array, "cuda"),
    ):
        with pytest.raises(ValueError, match="'cuda' does not work here"):
            ask()


def test_a_build_without_the_provider_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    choice = choose("cuda")
    assert choice.provider.name == "cpu"
    assert choice.reason is not None
    assert "does not contain" in choice.reason
    assert choose("auto").reason is None


def test_unknown_names_are_refused_with_the_known() -> None:
    with pytest.raises(ValueError, match="choose one of auto, cpu, cuda, tensorrt"):
        choose("gpu")


def test_the_rows() -> None:
    assert all(name == provider.name for name, provider in PROVIDERS.items())
    assert PROVIDERS["cuda"].options == {"use_tf32": "0"}
    assert [name for name, _ in PROVIDERS["tensorrt"].chain()] == [
        "TensorrtExecutionProvider",
        "CUDAExecutionProvider",
        "CPUExecutionProvider",
    ]
    assert Provider("x", "XExecutionProvider").chain() == [("XExecutionProvider", {})]


def test_output_of_libraries_is_captured(capfd: pytest.CaptureFixture[str]) -> None:
    with captured_output() as said:
        os.write(1, b"from C to stdout\n")
        os.write(2, b"from C to stderr\n")
        print("from Python")  # noqa: T201
    text = "".join(said)
    assert all(words in text for words in ("from C to stdout", "from C to stderr", "from Python"))
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"


def test_placement_names_each_node(tmp_path: Path) -> None:
    text = "g (float[N, 3] x) => (float[N, 3] y) { [one] a = Relu (x) [two] y = Exp (a) }"
    placed = placement(save(tmp_path, text), "cpu")
    assert [(node.node, node.op, node.provider) for node in placed] == [("one", "Relu", "cpu"), ("two", "Exp", "cpu")]


def test_values_that_pass_between_providers(tmp_path: Path) -> None:
    nodes = "[one] a = Relu (x) [two] b = Exp (a) [three] c = Abs (a) [four] y = Add (b, c)"
    text = f"g (float[N] x) => (float[N] y) {{ {nodes} }}"
    read = read_model_file(save(tmp_path, text)).nodes
    placed = [Placed(name, "", "", "cpu" if name == "two" else "cuda") for name in ("one", "two", "three", "four")]
    assert copies(read, placed) == ("a", "b")
    assert copies(read, [replace(node, provider="cuda") for node in placed]) == ()


def test_latency(tmp_path: Path) -> None:
    x = floats(2, 3)
    timed = latency(save(tmp_path, RELU), {"x": x}, "cpu", runs=5, warmup=1, threads=1)
    assert 0 < timed.fastest <= timed.median <= timed.p90 < 1
    assert (timed.provider, timed.runs, timed.threads) == ("cpu", 5, 1)
    with pytest.raises(ValueError, match="0 runs"):
        latency(tmp_path / "model.onnx", {"x": x}, "cpu", runs=0)


@pytest.mark.gpu
def test_the_gpu_validates_and_places(tmp_path: Path) -> None:
    text = "g (float[N, 64] x, float[64, 64] w) => (float[N, 64] y) { [mm] y = MatMul (x, w) }"
    model = save(tmp_path, text)
    x, w = floats(8, 64), floats(64, 64, seed=1)
    samples = Samples("sample", {"x": x, "w": w}, {"y": x @ w}, {"y": x.astype(np.float64) @ w})
    log = Log()
    done = validate(model, [samples], "cuda", log)
    assert done.passed, [finding.message for finding in log.findings]
    assert done.provider == "cuda"
    assert [node.provider for node in placement(model, "cuda")] == ["cuda"]
    assert latency(model, {"x": x, "w": w}, "cuda", runs=5).median > 0
