"""Faults of ONNX Runtime's own optimizations: each is told apart from a fault of the model, by optimizer and nodes.

The faults are those of the installed runtime. One that it does not show any more fails here: its row goes, and with it
what fxport does to avoid it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from fxport.diagnostics import Log
from fxport.ort_runner import Samples, validate
from fxport.ort_runner.optimizers import OPTIMIZERS, OptimizerFault, optimizer_fault, smallest
from fxport.ort_runner.session import Opened, Runtime
from fxport.ort_runner.trials import run_file

CSE = "CommonSubexpressionElimination"
TRANSPOSES = ("TransposeOptimizer", "TransposeOptimizer_CPUExecutionProvider")
PLAIN = Runtime("cpu", optimize=False)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


WHOLE = np.array([3, 1, 2, 1, 3])
PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1])
SQUARES = "strides=[2,2], kernel_shape=[2,2]"
GATES = {"w": numbers(1, 8, 2), "r": numbers(1, 8, 2)}


@dataclass(frozen=True)
class Row:
    """A model that an optimizer breaks: text, input `x`, weights, the optimizers, and nodes of which it breaks one."""

    name: str
    text: str
    x: np.ndarray
    optimizers: tuple[str, ...]
    broken: tuple[str, ...]
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)


ROWS = (
    Row(
        "Unique",
        "g (int64[5] x) => (int64[V] z, int64[5] i, int64[V] c) "
        "{ [a] u,,i0 = Unique(x) [b] v,,,c = Unique(x) [n] i = Neg(i0) [m] z = Mul(u, v) }",
        WHOLE,
        (CSE,),
        ("a", "b"),
    ),
    Row(
        "LSTM",
        "g (float[3,1,2] x) => (float[1,1,2] y, float[1,1,2] z) "
        "{ [a] ,h = LSTM<hidden_size=2>(x,w,r) [b] ,,c = LSTM<hidden_size=2>(x,w,r) [n] y = Neg(h) [m] z = Neg(c) }",
        numbers(3, 1, 2),
        (CSE,),
        ("a", "b"),
        GATES,
    ),
    Row(
        "GRU",
        "g (float[3,1,2] x) => (float[3,1,1,2] y, float[1,1,2] z) "
        "{ [a] a = GRU<hidden_size=2>(x,w,r) [b] ,h = GRU<hidden_size=2>(x,w,r) [n] y = Neg(a) [m] z = Neg(h) }",
        numbers(3, 1, 2),
        (CSE,),
        ("a", "b"),
        {"w": numbers(1, 6, 2), "r": numbers(1, 6, 2)},
    ),
    Row(
        "Pad with axes",
        "g (float[1,2,3,4] x) => (float[1,2,3,7] y) "
        "{ [s] t = Transpose<perm=[0,2,3,1]>(x) [p] q = Pad(t, pads,, axes) [t] y = Transpose<perm=[0,3,1,2]>(q) }",
        numbers(1, 2, 3, 4),
        TRANSPOSES,
        ("p",),
        {"pads": np.array([0, 3]), "axes": np.array([2])},
    ),
    Row(
        "Resize with axes",
        "g (float[1,2,3,4] x) => (float[1,2,6,12] y) "
        '{ [s] t = Transpose<perm=[0,2,3,1]>(x) [p] q = Resize<axes=[1,2], mode="nearest">(t,, scales) '
        "[t] y = Transpose<perm=[0,3,1,2]>(q) }",
        numbers(1, 2, 3, 4),
        TRANSPOSES,
        ("p",),
        {"scales": np.array([2, 3], np.float32)},
    ),
    Row(
        "Resize to sizes of axes",
        "g (float[1,2,3,4] x) => (float[1,2,7,12] y) "
        '{ [s] t = Transpose<perm=[0,2,3,1]>(x) [p] q = Resize<axes=[2,1], mode="nearest">(t,,, sizes) '
        "[t] y = Transpose<perm=[0,3,1,2]>(q) }",
        numbers(1, 2, 3, 4),
        TRANSPOSES,
        ("p",),
        {"sizes": np.array([12, 7])},
    ),
    Row(
        "blocks of QuantizeLinear",
        "g (float[1,4,6,6] x) => (float[1,4,6,6] y) { [s] t = Transpose<perm=[0,2,3,1]>(x) "
        "[q] q = QuantizeLinear<axis=-1, block_size=2>(t, scale) "
        "[p] d = DequantizeLinear<axis=-1, block_size=2>(q, scale) "
        "[t] y = Transpose<perm=[0,3,1,2]>(d) }",
        numbers(1, 4, 6, 6),
        TRANSPOSES,
        ("q", "p"),
        {"scale": np.abs(numbers(1, 6, 6, 2)) + np.float32(0.1)},
    ),
    Row(
        "Pad before MaxPool",
        f"g (float[1,2,4,4] x) => (float[1,2,3,3] y) {{ [p] q = Pad(x, pads) [m] y = MaxPool<{SQUARES}>(q) }}",
        -1 - np.abs(numbers(1, 2, 4, 4)),
        ("Pad_Fusion",),
        ("p", "m"),
        {"pads": PADS},
    ),
    Row(
        "Pad before MaxPool that pads",
        "g (float[1,2,4,4] x) => (float[1,2,4,4] y) "
        f"{{ [p] q = Pad(x, pads) [m] y = MaxPool<{SQUARES}, pads=[1,1,1,1]>(q) }}",
        -1 - np.abs(numbers(1, 2, 4, 4)),
        ("Pad_Fusion",),
        ("p", "m"),
        {"pads": PADS},
    ),
    Row(
        "Pad before AveragePool that rounds up",
        "g (float[1,2,5,5] x) => (float[1,2,4,4] y) "
        f"{{ [p] q = Pad(x, pads) [m] y = AveragePool<{SQUARES}, ceil_mode=1>(q) }}",
        numbers(1, 2, 5, 5),
        ("Pad_Fusion",),
        ("p", "m"),
        {"pads": PADS},
    ),
    Row(
        "whole parts",
        "g (int64[5] x) => (int64[5] y) { [d] q = Div(one, x) [m] y = Mul(q, seven) }",
        WHOLE,
        ("DivMulFusion",),
        ("d", "m"),
        {"one": np.array(1), "seven": np.array(7)},
    ),
    Row(
        "Relu and Clip of int8",
        "g (int8[4] x) => (int8[4] y) { [r] r = Relu(x) [c] y = Clip(r, low, high) }",
        np.array([1, -1, 5, 100], np.int8),
        ("FuseReluClip",),
        ("r", "c"),
        {"low": np.array(-1, np.int8), "high": np.array(50, np.int8)},
    ),
    Row(
        "fourth power",
        "g (float[2,3,4] x) => (float[2,3,4] y) "
        "{ [a] m = ReduceMean(x, axes) [b] d = Sub(x, m) [p] p = Pow(d, four) [c] v = ReduceMean(p, axes) "
        "[e] e = Add(v, epsilon) [s] s = Sqrt(e) [q] n = Div(d, s) [w] g = Mul(n, w) [f] y = Add(g, w) }",
        3 * numbers(2, 3, 4),
        ("LayerNormFusionL1",),
        ("p",),
        {"axes": np.array([-1]), "four": np.float32(4), "epsilon": np.float32(0.01), "w": numbers(4)},
    ),
    Row(
        "Cast of a Transpose",
        "g (float16[2,3,4] x) => (float[3,2,5] y) "
        "{ [t] t = Transpose<perm=[1,0,2]>(x) [c] c = Cast<to=1>(t) [m] y = MatMul(c, w) }",
        numbers(2, 3, 4).astype(np.float16),
        ("MatmulTransposeFusion",),
        ("c", "m"),
        {"w": numbers(4, 5)},
    ),
)


def saved(row: Row, folder: Path) -> Path:
    """The model of a row with the shapes of its values."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {row.text}')
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(each), name) for name, each in row.weights.items()
    )
    path = folder / "model.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_an_optimizer_that_breaks_a_model_is_named(row: Row, tmp_path: Path) -> None:
    path = saved(row, tmp_path)
    _, want = run_file(path, {"x": row.x}, PLAIN)

    def right(_opened: Opened, outputs: Mapping[str, np.ndarray]) -> bool:
        return all(outputs[n].shape == a.shape and np.allclose(outputs[n], a, equal_nan=True) for n, a in want.items())

    found = optimizer_fault(path, {"x": row.x}, PLAIN, right)
    assert found is not None
    assert found.optimizers
    assert set(found.optimizers) <= set(row.optimizers)  # a fault that two optimizers have may show for one alone
    assert set(row.broken) & set(found.nodes), found


def test_a_failure_is_told_with_its_optimizer(tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.name == "Relu and Clip of int8")
    log = Log()
    sample = Samples("sample", {"x": row.x}, {"y": np.array([1, 0, 5, 50], np.int8)})
    assert not validate(saved(row, tmp_path), [sample], "cpu", log).passed
    (finding,) = log.findings
    assert finding.rule.id == "FXP6006"
    assert "'FuseReluClip' of ONNX Runtime breaks 'Relu and Clip'" in finding.message
    assert finding.place is not None
    assert finding.place.onnx_node == "c"


@pytest.mark.parametrize(
    "text",
    [
        "g (float[3] x) => (float[N] y) { y = Reshape(x, shape) }",  # it fails with and without
        "g (float[3] x) => (float[3] y) { y = Relu(x) }",  # it is right with and without
    ],
)
def test_no_optimizer_is_blamed_for_what_is_so_without_it(text: str, tmp_path: Path) -> None:
    row = Row("other", text, numbers(3), (), (), {"shape": np.array([2])})
    assert optimizer_fault(saved(row, tmp_path), {"x": row.x}, PLAIN, lambda _opened, _outputs: True) is None


def test_a_fault_of_no_known_optimizer_is_one_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxport.ort_runner.optimizers.OPTIMIZERS", ("NoopElimination",))
    row = next(row for row in ROWS if row.name == "Relu and Clip of int8")
    found = optimizer_fault(saved(row, tmp_path), {"x": row.x}, PLAIN, lambda _opened, _outputs: True)
    assert found == OptimizerFault(())


def test_the_library_has_every_optimizer() -> None:
    folder = Path(onnxruntime.__file__).parent / "capi"
    library = b"".join(file.read_bytes() for file in folder.glob("onnxruntime_pybind11_state*.so"))
    parts = [part for name in OPTIMIZERS for part in (name.split("_CPU")[0], name.removeprefix("TransposeOptimizer_"))]
    assert [part for part in parts if part.encode() not in library] == []


def test_a_session_takes_every_optimizer_as_disabled(tmp_path: Path) -> None:
    row = Row("plain", "g (float[3] x) => (float[3] y) { y = Relu(x) }", numbers(3), (), ())
    _, outputs = run_file(saved(row, tmp_path), {"x": row.x}, Runtime("cpu", optimize=True, disabled=OPTIMIZERS))
    assert np.array_equal(outputs["y"], np.maximum(row.x, 0))


@pytest.mark.parametrize("needed", [{3}, {0, 19}, {5, 6, 7}, set(range(20))])
def test_the_smallest_part_is_found(needed: set[int]) -> None:
    assert set(smallest(range(20), lambda part: needed <= set(part), np.inf)) == needed


def test_what_is_not_decided_in_time_stays_in() -> None:
    assert smallest(range(20), lambda part: 3 in part, 0.0) == list(range(20))
