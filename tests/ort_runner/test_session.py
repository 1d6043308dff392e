"""Sessions: every element type in and out, and what ONNX Runtime says when it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fxport.diagnostics import Rule, rules
from fxport.ort_runner.dtypes import BY_NAME, ELEMENTS, Element
from fxport.ort_runner.failures import RUN, Failure, failure_of, tidy
from fxport.ort_runner.session import LocalSession, from_ort, to_ort
from tests.ort_runner.models import RELU, floats, save


def run(model: Path, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """One run in this process, on the CPU."""
    with LocalSession(model, "cpu") as session:
        session.open()
        return session.run(inputs)


def fails(model: Path, **inputs: np.ndarray) -> Failure:
    """The failure of a model that does not open or run."""
    with pytest.raises(Failure) as caught:
        run(model, **inputs)
    return caught.value


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)
@pytest.mark.parametrize("shape", [(2, 3), (5,), (), (0, 3)], ids=str)
def test_values_of_every_type_go_in_and_out_of_ort_values(element: Element, shape: tuple[int, ...]) -> None:
    x = (np.arange(int(np.prod(shape))) % 4).astype(element.dtype).reshape(shape)
    value = to_ort(x)
    assert value.data_type() == f"tensor({element.ort_name})"
    back = from_ort("x", value)
    assert back.dtype == x.dtype
    assert back.shape == x.shape
    assert back.tobytes() == x.tobytes()


def test_bytes_in_the_order_of_other_machines_are_turned() -> None:
    x = np.arange(6, dtype=">f4").reshape(2, 3)
    np.testing.assert_array_equal(to_ort(x).numpy(), x)


@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int64", "int8", "bool"]
)
def test_values_of_a_type_go_through_a_model(tmp_path: Path, name: str) -> None:
    element = BY_NAME[name]
    text = f"g ({element.ort_name}[N, M] x) => ({element.ort_name}[N, M] y) {{ y = Identity (x) }}"
    x = np.array([[0, 1, 2], [3, 1, 0]]).astype(element.dtype)
    session = LocalSession(save(tmp_path, text), "cpu")
    opened = session.open()
    assert opened.inputs[0].dtype == name
    assert opened.inputs[0].shape == ("N", "M")
    y = session.run({"x": x.T})["y"]  # strides that are not in order
    assert y.dtype == element.dtype
    np.testing.assert_array_equal(y, x.T)


def test_four_bit_integers_go_through_a_model(tmp_path: Path) -> None:
    text = """g (int4[N] x, float s) => (float[N] f, int4[N] y) {
        f = DequantizeLinear (x, s)  y = QuantizeLinear <output_dtype = 22> (f, s)
    }"""
    x = np.array([0, 1, -2, 3, -8]).astype(BY_NAME["int4"].dtype)
    outputs = run(save(tmp_path, text), x=x, s=np.array(0.5, np.float32))
    np.testing.assert_array_equal(outputs["f"], [0, 0.5, -1, 1.5, -4])
    np.testing.assert_array_equal(outputs["y"], x)


def test_empty_and_scalar_outputs(tmp_path: Path) -> None:
    text = "g (float[N, 3] x) => (float s, float[N, 3] y) { s = ReduceSum <keepdims = 0> (x)  y = Neg (x) }"
    outputs = run(save(tmp_path, text), x=np.zeros((0, 3), np.float32))
    assert outputs["s"].shape == ()
    assert outputs["y"].shape == (0, 3)


def test_sequences_are_no_tensors(tmp_path: Path) -> None:
    text = "g (float[N] x) => (seq(float[N]) y) { y = SequenceConstruct (x, x) }"
    assert fails(save(tmp_path, text), x=floats(2)).rule is rules.RUNTIME_FAILED


OUTSIDE = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]>'
BROKEN: dict[str, tuple[str, Rule, str | None]] = {
    "no such operator": ("g (float[N] x) => (float[N] y) { [a] y = Fooz (x) }", rules.MODEL_REJECTED, None),
    "no such domain": ("g (float[N] x) => (float[N] y) { [a] y = my.Fooz (x) }", rules.KERNEL_MISSING, None),
    "cycle": (
        "g (float[N] x) => (float[N] y) { [a] q = Add (x, r) [b] r = Neg (q) [c] y = Neg (r) }",
        rules.MODEL_REJECTED,
        None,
    ),
    "undefined input": ("g (float[N] x) => (float[N] y) { [a] y = Add (x, r) }", rules.MODEL_REJECTED, None),
    "types": ("g (float[N] x, int64[N] z) => (float[N] y) { [a] y = Add (x, z) }", rules.MODEL_REJECTED, "a"),
    "shapes": ("g (float[2] x) => (float[2] y) { [a] y = Reshape <allowzero = 0> (x, x) }", rules.MODEL_REJECTED, "a"),
    "no kernel": (
        "g (bfloat16[N, 3] x, bfloat16[3, 3] w) => (bfloat16[N, 3] y) { [a] y = MatMul (x, w) }",
        rules.KERNEL_MISSING,
        "a",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_models_that_do_not_open(tmp_path: Path, name: str) -> None:
    text, rule, node = BROKEN[name]
    failure = fails(save(tmp_path, text))
    assert failure.rule is rule
    if node is not None:
        assert failure.node == node
    error = str(failure.facts["error"])
    assert "\n" not in error
    assert "ONNXRuntimeError" not in error
    assert "/onnxruntime_src" not in error


def test_a_missing_kernel_names_the_operator_and_the_provider(tmp_path: Path) -> None:
    facts = fails(save(tmp_path, BROKEN["no kernel"][0])).facts
    assert facts["op"] == "MatMul"
    assert facts["provider"] == "cpu"


def test_a_kernel_that_raises_is_named(tmp_path: Path) -> None:
    text = "g (float[N] x, int64[M] i) => (float[M] y) { [pick] y = Gather (x, i) }"
    failure = fails(save(tmp_path, text), x=floats(3), i=np.array([9]))
    assert failure.rule is rules.RUNTIME_FAILED
    assert failure.node == "pick"
    assert "out of data bounds" in str(failure.facts["error"])


def test_of_nested_nodes_the_innermost_is_named(tmp_path: Path) -> None:
    text = """g (float[N] x, int64[M] i, bool c) => (float[K] y) { [branch] y = If (c) <
        then_branch = t () => (float[L] o) { [pick] o = Gather (x, i) },
        else_branch = e () => (float[L] o) { [neg] o = Neg (x) }
    > }"""
    assert fails(save(tmp_path, text), x=floats(3), i=np.array([9]), c=np.array(True)).node == "pick"


def test_too_much_memory_is_a_failure_of_the_run(tmp_path: Path) -> None:
    text = "g (int64[N] x) => (float[A, B, C] y) { [big] y = ConstantOfShape (x) }"
    failure = fails(save(tmp_path, text), x=np.array([1 << 20, 1 << 20, 1 << 10]))
    assert failure.rule is rules.RUNTIME_FAILED
    assert failure.node == "big"


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(save(tmp_path, RELU).read_bytes()[:-7])
    for path in (tmp_path / "cut.onnx", tmp_path / "absent.onnx", tmp_path):
        assert fails(path).rule is rules.MODEL_REJECTED


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("std::bad_alloc", rules.RUNTIME_FAILED),
        ("CUDA out of memory", rules.RUNTIME_FAILED),
        ("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : GRU is not implemented", rules.KERNEL_MISSING),
        ("[ONNXRuntimeError] : 11 : EP_FAIL : it did", rules.RUNTIME_FAILED),
    ],
)
def test_messages_of_a_run(message: str, rule: Rule) -> None:
    assert failure_of(RuntimeError(message), RUN, "cpu").rule is rule


def test_long_messages_are_cut() -> None:
    assert len(tidy("x" * 10_000)) <= 400
    assert tidy("[ONNXRuntimeError] : 1 : FAIL : a\n  b ") == "a b"


def test_importing_the_package_imports_no_runtime() -> None:
    code = "import sys, ort_runner; print([m for m in ('onnxruntime', 'onnx', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
