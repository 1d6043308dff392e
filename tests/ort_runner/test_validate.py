"""validate: each check is raised by a planted fault, at the user's line, and sound models pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fxport.diagnostics import Level, Log, Rule, rules
from fxport.ort_runner import Samples, validate
from fxport.ort_runner import validations as module
from fxport.ort_runner.validations import VALIDATIONS, validation
from tests.ort_runner.models import RELU, SOFTMAX, external, floats, relu_samples, save, softmax_samples

PLACES = {"relu": ["net.py", 12, "encoder.0", "relu_1"]}


def findings(model: Path, *samples: Samples, **options: object) -> list[tuple[Rule, str]]:
    """(rule, message) of what one validation on the CPU says, in this process."""
    log = Log()
    done = validate(model, samples, "cpu", log, isolate=False, **options)  # pyright: ignore[reportArgumentType]
    assert done.passed is not any(finding.level is Level.ERROR for finding in log.findings)
    return [(finding.rule, finding.message) for finding in log.findings]


def only(model: Path, *samples: Samples, **options: object) -> tuple[Rule, str]:
    """The one thing that it says."""
    (finding,) = findings(model, *samples, **options)
    return finding


@pytest.mark.parametrize("isolate", [True, False])
def test_a_sound_model_passes(tmp_path: Path, isolate: bool) -> None:
    log = Log()
    samples = [softmax_samples(floats(4, 100)), replace(softmax_samples(floats(7, 33)), label="resized")]
    done = validate(save(tmp_path, SOFTMAX), samples, "cpu", log, isolate=isolate)
    assert done.passed
    assert not log.findings
    assert done.provider == "cpu"
    assert [sample.label for sample in done.samples] == ["sample", "resized"]
    assert done.worst is not None
    assert done.worst[1] == "y"
    assert 0 < done.worst[2].ratio < 1
    assert done.seconds > sum(sample.seconds for sample in done.samples) > 0


def test_the_files_alone_are_enough(tmp_path: Path) -> None:
    softmax_samples(floats(4, 100)).save(tmp_path / "samples.npz")
    assert validate(save(tmp_path, SOFTMAX), [Samples.load(tmp_path / "samples.npz")], "cpu", isolate=False).passed


Change = Callable[[np.ndarray], np.ndarray]
WRONG: dict[str, tuple[Change, Rule, str]] = {
    "value": (lambda y: y + np.float32(1e-3), rules.OUTPUT_DRIFT, "'y' differs"),
    "one element": (lambda y: np.concatenate([y[:-1], y[-1:] * np.float32(1.001)]), rules.OUTPUT_DRIFT, "'y' differs"),
    "dtype": (lambda y: y.astype(np.float16), rules.OUTPUT_TYPE_MISMATCH, "float32"),
    "unsigned": (lambda y: y.astype(np.uint8), rules.OUTPUT_TYPE_MISMATCH, "uint8"),
    "shape": (lambda y: y[:1], rules.OUTPUT_SHAPE_MISMATCH, "[2, 3]"),
    "broadcast": (lambda y: y[None], rules.OUTPUT_SHAPE_MISMATCH, "[1, 2, 3]"),
    "lost nan": (lambda y: np.where(y == y.max(), np.float32(np.nan), y), rules.NON_FINITE_OUTPUT, "1 elements"),
    "infinity": (lambda y: np.where(y == y.max(), np.float32(np.inf), y), rules.NON_FINITE_OUTPUT, "1 elements"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_output_that_is_not_pytorchs(tmp_path: Path, name: str) -> None:
    change, rule, words = WRONG[name]
    sound = relu_samples()
    log = Log()
    samples = Samples("sample", sound.inputs, {"y": change(sound.outputs["y"])})
    done = validate(save(tmp_path, RELU, places=PLACES), [samples], "cpu", log, isolate=False, atol=1e-6)
    assert not done.passed
    (finding,) = log.findings
    assert finding.rule is rule
    assert words in finding.message
    assert finding.place is not None
    assert (finding.place.path, finding.place.line, finding.place.module) == ("net.py", 12, "encoder.0")
    assert finding.facts["sample"] == "sample"


def test_nan_does_not_pass(tmp_path: Path) -> None:
    x = np.array([[-1.0, 4.0, 9.0]], np.float32)
    text = "g (float[N, 3] x) => (float[N, 3] y) { y = Sqrt (x) }"
    with np.errstate(invalid="ignore"):
        root = np.sqrt(x)
    assert not findings(save(tmp_path, text), Samples("s", {"x": x}, {"y": root}))
    finite = np.nan_to_num(root)
    assert only(save(tmp_path, text), Samples("s", {"x": x}, {"y": finite}))[0] is rules.NON_FINITE_OUTPUT


def test_the_same_fault_in_two_samples_is_one_finding(tmp_path: Path) -> None:
    bad = [Samples(label, relu_samples().inputs, {"y": relu_samples().outputs["y"] + 1}) for label in ("a", "b")]
    log = Log()
    done = validate(save(tmp_path, RELU), bad, "cpu", log, isolate=False)
    assert [finding.count for finding in log.findings] == [2]
    assert [sample.passed for sample in done.samples] == [False, False]


TWO = "g (float[N] x) => (float[N] a, float[N] b) { a = Neg (x) b = Exp (x) }"


def test_outputs_are_counted_and_named(tmp_path: Path) -> None:
    x = floats(3)
    model = save(tmp_path, TWO)
    want = {"a": -x, "b": np.exp(x)}
    assert not findings(model, Samples("s", {"x": x}, want))
    assert "no such output" in only(model, Samples("s", {"x": x}, {**want, "c": x}))[1]
    assert "returned no such output" in only(model, Samples("s", {"x": x}, {"a": -x}))[1]
    rule, message = only(model, Samples("s", {"x": x}, {"b": np.exp(x), "a": -x}))
    assert rule is rules.CONTRACT_BROKEN
    assert "order of the outputs is a, b" in message


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "no value for this input"),
        ({"x": floats(2, 3), "z": floats(1)}, "no such input"),
        ({"x": floats(2, 3).astype(np.float64)}, "float64"),
        ({"x": floats(2, 4)}, "[N, 3]"),
        ({"x": floats(3)}, "[3]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path: Path, inputs: dict[str, np.ndarray], words: str) -> None:
    rule, message = only(save(tmp_path, RELU), Samples("s", inputs, {"y": floats(2, 3)}))
    assert rule is rules.CONTRACT_BROKEN
    assert words in message


def test_one_name_has_one_size(tmp_path: Path) -> None:
    model = save(tmp_path, "g (float[N] x, float[N] z) => (float[M] y) { y = Concat <axis = 0> (x, z) }")
    x = floats(3)
    assert not findings(model, Samples("s", {"x": x, "z": x}, {"y": np.tile(x, 2)}))
    assert only(model, Samples("s", {"x": x, "z": x[:2]}, {"y": np.append(x, x[:2])}))[0] is rules.CONTRACT_BROKEN


def test_a_declared_shape_that_does_not_hold_is_told(tmp_path: Path) -> None:
    model = save(tmp_path, "g (float[N] x, int64[1] n) => (float[N] y) { y = Expand (x, n) }")
    samples = Samples("s", {"x": np.zeros(1, np.float32), "n": np.array([4])}, {"y": np.zeros(4, np.float32)})
    rule, message = only(model, samples)
    assert rule is rules.CONTRACT_BROKEN
    assert "declared [N], but ONNX Runtime returned [4]" in message


def test_integers_booleans_empty_and_scalar_outputs(tmp_path: Path) -> None:
    text = """g (float[N, 3] x) => (int64[N] i, bool[N, 3] b, float s, float[M, 3] e) {
        i = ArgMax <axis = 1, keepdims = 0> (x)  z = Constant <value_float = 0.0> ()  b = Greater (x, z)
        s = ReduceMax <keepdims = 0> (x)
        from = Constant <value_ints = [0]> ()  e = Slice (x, from, from)
    }"""
    x = np.array([[1, 1, 0], [0, 2, 2]], np.float32)  # ties: the first of them counts
    want = {"i": x.argmax(1), "b": x > 0, "s": x.max(), "e": x[:0]}
    model = save(tmp_path, text)
    told = only(model, Samples("s", {"x": x}, {name: np.asarray(value) for name, value in want.items()}))
    assert told[0] is rules.NOTHING_SHOWN
    assert "'e'" in told[1]
    wrong = {**want, "i": np.array([0, 2]), "s": x.max()}
    rule, message = only(model, Samples("s", {"x": x}, {name: np.asarray(value) for name, value in wrong.items()}))
    assert rule is rules.OUTPUT_DRIFT
    assert "'i'" in message


def test_a_missing_kernel_is_at_the_users_line(tmp_path: Path) -> None:
    text = "g (bfloat16[N, 3] x, bfloat16[3, 3] w) => (bfloat16[N, 3] y) { [mm] y = MatMul (x, w) }"
    log = Log()
    done = validate(save(tmp_path, text, places={"mm": ["net.py", 7, "fc", "linear"]}), [relu_samples()], "cpu", log)
    assert not done.passed
    assert done.provider is None
    assert done.samples == ()
    (finding,) = log.findings
    assert finding.rule is rules.KERNEL_MISSING
    assert finding.place is not None
    assert finding.place.line == 7
    assert finding.place.onnx_node == "mm"
    assert "'MatMul' on 'cpu'" in finding.message


def test_a_kernel_that_raises_spares_the_other_samples(tmp_path: Path) -> None:
    text = "g (float[3] x, int64[M] i) => (float[M] y) { [pick] y = Gather (x, i) }"
    x = floats(3)
    good = Samples("good", {"x": x, "i": np.array([1])}, {"y": x[[1]]})
    log = Log()
    bad = replace(good, label="bad", inputs={"x": x, "i": np.array([9])})
    done = validate(save(tmp_path, text), [bad, good], "cpu", log)
    assert [sample.passed for sample in done.samples] == [False, True]
    (finding,) = log.findings
    assert finding.rule is rules.RUNTIME_FAILED
    assert finding.facts["sample"] == "bad"


def test_external_data(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    x = floats(4)
    samples = Samples("s", {"x": x}, {"y": x + np.arange(4, dtype=np.float32)})
    assert validate(external(tmp_path, "w.bin"), [samples], "cpu").passed
    log = Log()
    assert not validate(external(tmp_path, "../w.bin"), [samples], "cpu", log).passed
    (finding,) = log.findings
    assert finding.rule is rules.EXTERNAL_DATA_MISSING
    assert finding.place is not None
    assert finding.place.path.endswith("model.onnx")


def test_files_that_are_no_models(tmp_path: Path) -> None:
    whole = save(tmp_path, RELU)
    (tmp_path / "cut.onnx").write_bytes(whole.read_bytes()[:-7])
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_text("hello")
    for name in ("cut.onnx", "empty.onnx", "text.onnx", "absent.onnx", "."):
        log = Log()
        assert not validate(tmp_path / name, [relu_samples()], "cpu", log).passed
        (finding,) = log.findings
        assert finding.rule is rules.MODEL_REJECTED
        assert finding.place is not None
        assert finding.place.path == str(tmp_path / name)


def test_no_samples_is_not_a_pass(tmp_path: Path) -> None:
    log = Log()
    assert not validate(save(tmp_path, RELU), [], "cpu", log, isolate=False).passed
    assert [finding.rule for finding in log.findings] == [rules.VALIDATION_SKIPPED]


def test_a_kernel_with_a_long_running_sum_is_no_fault(tmp_path: Path) -> None:
    text = """g (float[N, 64] x) => (float[1, 64] y) {
        axes = Constant <value_ints = [0]> ()  y = ReduceSum (x, axes)
    }"""
    x = np.random.default_rng(0).random((50_000, 64)).astype(np.float32)
    exact = x.astype(np.float64).sum(0, keepdims=True)
    samples = Samples("s", {"x": x}, {"y": exact.astype(np.float32)}, {"y": exact})
    assert not findings(save(tmp_path, text), samples)
    shifted = replace(samples, outputs={"y": (exact * 1.001).astype(np.float32)}, exact={"y": exact * 1.001})
    assert only(save(tmp_path, text), shifted)[0] is rules.OUTPUT_DRIFT


def test_tolerances_can_be_given(tmp_path: Path) -> None:
    off = Samples("s", relu_samples().inputs, {"y": relu_samples().outputs["y"] + np.float32(1e-3)})
    assert only(save(tmp_path, RELU), off)[0] is rules.OUTPUT_DRIFT
    assert not findings(save(tmp_path, RELU), off, atol=2e-3)
    assert only(save(tmp_path, RELU), off, atol=1e-4, rtol=1e-6)[0] is rules.OUTPUT_DRIFT


def test_unknown_providers_are_refused(tmp_path: Path) -> None:
    for isolate in (True, False):
        with pytest.raises(ValueError, match="no execution provider 'gpu'"):
            validate(save(tmp_path, RELU), [relu_samples()], "gpu", isolate=isolate)


def test_every_check_is_in_the_order() -> None:
    checks = [
        value
        for value in vars(module).values()
        if getattr(value, "__module__", "") == module.__name__
        and list(getattr(value, "__annotations__", ())) == ["run", "return"]
    ]
    assert set(checks) == set(VALIDATIONS)


def test_a_check_that_cannot_answer_is_refused() -> None:
    def returns(_: object) -> list[object]:
        """Holds."""
        return []

    with pytest.raises(TypeError, match="returns"):
        validation(returns)  # pyright: ignore[reportArgumentType]


NOISY = "g (float[N, 3] x) => (float[N, 3] y, float[N, 3] z) { y = RandomNormalLike (x)  z = Relu (x) }"


@pytest.mark.parametrize(("spread", "said"), [(1.0, []), (2.0, [rules.DISTRIBUTION_DRIFT])])
def test_random_outputs_are_compared_by_distribution(tmp_path: Path, spread: float, said: list[Rule]) -> None:
    x, draws = floats(40, 3), np.stack([floats(40, 3, seed=run, scale=spread) for run in range(16)])
    samples = Samples("sample", {"x": x}, {"y": draws[0], "z": np.maximum(x, 0)}, None, {"y": draws})
    samples.save(tmp_path / "samples.npz")
    model, log = save(tmp_path, NOISY), Log()
    done = validate(model, [Samples.load(tmp_path / "samples.npz")], "cpu", log, isolate=False)
    assert [finding.rule for finding in log.findings] == said
    assert (list(done.samples[0].gaps), list(done.samples[0].differences)) == (["z"], ["y"])
