"""Other implementations of ONNX run the same samples, and it is told which one is alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from fxport.diagnostics import Log
from fxport.ort_runner import Samples, validate
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.runtimes import RUNTIMES, WITNESSES, session_of
from fxport.ort_runner.session import LocalSession
from fxport.ort_runner.witnesses import witnessed
from tests.ort_runner.models import RELU, external, floats, relu_samples, runtimes, save

SAME = "g (T[N] x) => (T[N] y, T[N] z) { y = Identity (x) z = Identity (y) }"


@pytest.mark.parametrize("name", runtimes(*WITNESSES))
@pytest.mark.parametrize("isolate", [True, False])
def test_a_sound_model_passes(tmp_path: Path, name: str, isolate: bool) -> None:
    log, samples = Log(), [relu_samples(), relu_samples("resized", 5)]
    path = save(tmp_path, RELU)
    found = witnessed(validate(path, samples, "cpu", log, isolate=False), samples, [name], log, isolate=isolate)
    assert not log.findings
    assert found.equal
    (witness,) = found.witnesses
    assert witness.provider == name
    assert [sample.label for sample in witness.samples] == ["sample", "resized"]


@pytest.mark.parametrize("name", runtimes(*WITNESSES))
@pytest.mark.parametrize(
    ("onnx_type", "dtype"),
    [
        ("float", np.float32),
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("double", np.float64),
        ("int64", np.int64),
        ("bool", np.bool_),
        ("uint8", np.uint8),
    ],
)
def test_each_type_goes_in_and_comes_out(tmp_path: Path, name: str, onnx_type: str, dtype: type) -> None:
    if name == "web" and onnx_type == "bfloat16":
        pytest.skip("onnxruntime-web has no tensors of bfloat16")
    path = save(tmp_path, SAME.replace("T", onnx_type))
    x = np.array([3.5, 0, 1, 7], np.float64).astype(dtype)
    with session_of(name, path, "cpu") as session:
        session.open()
        found = session.run({"x": x})
    for each in ("y", "z"):
        assert found[each].dtype == x.dtype
        assert np.array_equal(found[each].astype(np.float64), x.astype(np.float64))


@pytest.mark.parametrize("name", runtimes("reference"))
def test_elements_are_gathered_from_more_rows_than_there_are_indices(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, "g (float[3,40] x, int64[2,5] i) => (float[2,5] y) { y = GatherElements <axis=1> (x, i) }")
    x, places = np.arange(120, dtype=np.float32).reshape(3, 40), np.array([[0, 39, -1, 7, 33], [1, 2, 3, 4, -40]])
    with session_of(name, path, "cpu") as session:
        session.open()
        assert np.array_equal(session.run({"x": x, "i": places})["y"], np.take_along_axis(x[:2], places, 1))


@pytest.mark.parametrize("name", runtimes("reference"))
def test_an_rnn_may_have_relu(tmp_path: Path, name: str) -> None:
    sizes = "(float[2,1,1] x, float[1,1,1] w, float[1,1,1] r) => (float[2,1,1,1] y)"
    text = f'g {sizes} {{ y = RNN <hidden_size=1, activations=["Relu"]> (x, w, r) }}'
    one = np.ones((1, 1, 1), np.float32)
    with session_of(name, save(tmp_path, text), "cpu") as session:
        session.open()
        found = session.run({"x": np.array([[[-2]], [[3]]], np.float32), "w": one, "r": one})["y"]
    assert found.reshape(-1).tolist() == [0, 3]


@pytest.mark.parametrize("name", runtimes("web"))
def test_a_type_that_it_has_no_tensors_of_is_told(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, SAME.replace("T", "float"))
    with session_of(name, path, "cpu") as session:
        session.open()
        with pytest.raises(Failure, match="no tensors of bfloat16"):
            session.run({"x": np.ones(2, ml_dtypes.bfloat16)})


@pytest.mark.parametrize("name", runtimes(*WITNESSES))
def test_a_state_is_its_first_value_or_what_is_fed(tmp_path: Path, name: str) -> None:
    text = "g (float[2] x, float[2] s) => (float[2] y) <float[2] s = {1, 2}> { y = Add (x, s) }"
    path, x = save(tmp_path, text), np.array([10, 20], np.float32)
    with session_of(name, path, "cpu") as session:
        opened = session.open()
        assert [port.name for port in opened.inputs] == ["x"]
        assert [port.name for port in opened.state] == ["s"]
        assert session.run({"x": x})["y"].tolist() == [11, 22]
        assert session.run({"x": x, "s": x})["y"].tolist() == [20, 40]
        assert session.run({"x": x})["y"].tolist() == [11, 22]


@pytest.mark.parametrize("name", runtimes(*WITNESSES))
def test_external_data_is_read(tmp_path: Path, name: str) -> None:
    np.arange(4, dtype=np.float32).tofile(tmp_path / "w.bin")
    with session_of(name, external(tmp_path, "w.bin"), "cpu") as session:
        session.open()
        assert session.run({"x": np.ones(4, np.float32)})["y"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", runtimes(*WITNESSES))
def test_an_operator_that_it_lacks_is_told_at_its_line(tmp_path: Path, name: str) -> None:
    path = save(
        tmp_path, "g (float[3] x) => (float[3] y) { [own] y = my.Own (x) }", places={"own": ["net.py", 4, "", ""]}
    )
    log = Log()
    found = validate(path, [relu_samples()], "cpu", log, isolate=False, runtime=name)
    assert not found.passed
    (finding,) = log.findings
    assert finding.rule.id == "FXP6007"
    assert f"'{name}' cannot run the model" in finding.message
    assert finding.place is not None
    assert (finding.place.path, finding.place.line) == ("net.py", 4)


class Doubled(LocalSession):
    """A runtime that is wrong: it gives twice what is right."""

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: 2 * value for name, value in super().run(inputs).items()}


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    made = replace(RUNTIMES["reference"], name="doubled", session=partial(Doubled, provider="cpu"))
    monkeypatch.setattr("fxport.ort_runner.runtimes.RUNTIMES", {**RUNTIMES, "doubled": made})


def detail_of(path: Path, samples: Samples, *names: str) -> list[str]:
    log = Log()
    found = witnessed(validate(path, [samples], "cpu", log, isolate=False), [samples], names, log, isolate=False)
    assert not found.passed
    return [str(finding.facts["detail"]) for finding in log.findings if finding.rule.id == "FXP5014"]


def test_a_runtime_that_is_alone_is_named(tmp_path: Path, wrong: None) -> None:
    (detail,) = detail_of(save(tmp_path, RELU), relu_samples(), "reference", "doubled")
    assert detail == "doubled is alone; PyTorch, onnxruntime and reference agree"


def test_a_file_that_says_something_else_leaves_pytorch_alone(tmp_path: Path) -> None:
    samples = replace(relu_samples(), outputs={"y": floats(2, 3)}, exact=None)
    (detail,) = detail_of(save(tmp_path, RELU), samples, "reference")
    assert detail == "PyTorch is alone; onnxruntime and reference agree"


def test_where_none_agree_that_is_told(tmp_path: Path, wrong: None) -> None:
    samples = replace(relu_samples(), outputs={"y": floats(2, 3)}, exact=None)
    (detail,) = detail_of(save(tmp_path, RELU), samples, "doubled")
    assert detail == "PyTorch, onnxruntime and doubled each give something else"
