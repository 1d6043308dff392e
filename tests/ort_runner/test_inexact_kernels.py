"""Kernels that are inexact beside 0: what was measured of them holds, and explains their errors and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from fxport.diagnostics import Finding, Log, Rule, rules
from fxport.ort_runner import Samples, Validation, inexact_kernels, validate
from fxport.ort_runner.inexact_kernels import KERNELS, UNIT, exact_file, exact_outputs
from fxport.ort_runner.providers import PROVIDERS
from fxport.ort_runner.session import LocalSession, Runtime
from tests.ort_runner.models import save

HERE = Runtime("cpu", optimize=True, isolate=False)
RANGES = [(-88, -18), (-18, -14), (-14, -10), (-10, -6), (-6, -2), (-2, -0.01), (-0.01, 0.01), (0.01, 2), (2, 40)]

NODES = {
    "Sigmoid": "Sigmoid (x)",
    "Tanh": "Tanh (x)",
    "Elu": "Elu <alpha = 1.5> (x)",
    "Celu": "Celu <alpha = 2.0> (x)",
    "Selu": "Selu (x)",
    "Gelu": 'Gelu <approximate = "tanh"> (x)',
}


def graph(node: str) -> str:
    return f"g (float[N] x) => (float[N] y) {{ y = {node} }}"


def numbers(count: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(low, high, count) for low, high in RANGES]).astype(np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def results(path: Path, x: np.ndarray) -> np.ndarray:
    with LocalSession(path, "cpu") as session:
        session.open()
        return session.run({"x": x})["y"].astype(np.float64)


def test_each_kernel_is_measured() -> None:
    assert NODES.keys() == KERNELS.keys()


@pytest.mark.parametrize("op", NODES)
def test_a_kernel_errs_no_more_than_the_random_errors(op: str, tmp_path: Path) -> None:
    path, x = save(tmp_path, graph(NODES[op])), numbers()
    found = exact_outputs(path, {"x": x}, HERE)
    assert found is not None
    exact, erring = (outputs["y"].astype(np.float64) for outputs in (found.outputs, found.erring[0]))
    error, allowed = np.abs(results(path, x) - exact), np.abs(erring - exact)
    for low, high in RANGES:
        here = (x >= low) & (x < high)
        rounding = 4 * UNIT * np.abs(exact[here])
        assert np.all(error[here] <= 1.1 * allowed[here].max() + rounding), (low, high)
    # They are no more than three times what they explain, where they are largest.
    assert allowed.max() <= 3 * error.max()


def test_nodes_in_bodies_and_functions_are_replaced(tmp_path: Path) -> None:
    then, other = ("g () => (float[N] t) { t = Sigmoid (x) }", "g () => (float[N] e) { e = my.twice (x) }")
    text = f"""
        g (float[N] x, bool c) => (float[N] y) {{ y = If (c) <then_branch = {then}, else_branch = {other}> }}
        <domain: "my", opset_import: ["" : 21]> twice (x) => (y) {{ a = Sigmoid (x) y = Add (a, a) }}"""
    path, x = save(tmp_path, text), np.linspace(-18, -14, 50, dtype=np.float32)
    for condition, factor in ((True, 1), (False, 2)):
        found = exact_outputs(path, {"x": x, "c": np.array(condition)}, HERE)
        assert found is not None
        np.testing.assert_allclose(found.outputs["y"], factor * sigmoid(x), rtol=1e-6)


def test_a_model_whose_functions_alone_import_the_operators() -> None:
    """ONNX Runtime takes it, and so are its kernels replaced."""
    text = """<ir_version: 9, opset_import: ["my": 1]> g (float[4] x) => (float[4] y) { y = my.f(x) }
    <domain: "my", opset_import: ["": 21]> f (x) => (y) { y = Sigmoid (x) }"""
    model = onnx.parser.parse_model(text)
    assert inexact_kernels.replace_kernels(model) == ("Sigmoid",)
    onnx.checker.check_model(model)


def test_a_file_without_such_kernels_is_not_run_again(tmp_path: Path) -> None:
    assert exact_outputs(save(tmp_path, graph("Relu (x)")), {"x": numbers(10)}, HERE) is None
    with exact_file(save(tmp_path, graph("Gelu (x)"))) as exact:
        assert exact is None


def found(folder: Path, body: str, want: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> list[str]:
    exact = want(x)
    samples = Samples("sample", {"x": x}, {"y": exact.astype(np.float32)}, {"y": exact})
    log = Log()
    path = save(folder, f"g (float[N] x) => (float[N] y) {{ {body} }}")
    validate(path, [samples], "cpu", log, isolate=False)
    return [finding.rule.id for finding in log.findings]


X = np.random.default_rng(1).uniform(-14, -8, 5000).astype(np.float32)


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ("y = Sigmoid (x)", [rules.INEXACT_KERNELS.id]),
        ("s = Sigmoid (x) k = Constant <value_float = 1.002> () y = Mul (s, k)", [rules.OUTPUT_DRIFT.id]),
        ("k = Constant <value_float = -1e-8> () s = Sigmoid (x) y = Add (s, k)", [rules.OUTPUT_DRIFT.id]),
        ("k = Constant <value_float = 1.0001> () z = Mul (x, k) y = Sigmoid (z)", [rules.OUTPUT_DRIFT.id]),
    ],
    ids=["sound", "factor", "offset", "operand"],
)
def test_a_fault_is_told_from_the_errors_of_a_kernel(body: str, ids: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, body, sigmoid, X) == ids


def test_errors_above_those_measured_are_no_rounding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(KERNELS["Sigmoid"], error="units = Mul (one, tiny)")
    monkeypatch.setattr(inexact_kernels, "KERNELS", {"Sigmoid": small})
    assert found(tmp_path, "y = Sigmoid (x)", sigmoid, X) == [rules.OUTPUT_DRIFT.id]


def test_what_is_inexact_by_much_is_a_doubt(tmp_path: Path) -> None:
    x = np.linspace(-18, -15, 2000, dtype=np.float32)
    samples = Samples("sample", {"x": x}, {"y": sigmoid(x).astype(np.float32)}, {"y": sigmoid(x)})
    validation = validate(save(tmp_path, graph("Sigmoid (x)")), [samples], "cpu", isolate=False)
    assert validation.passed
    assert validation.doubts == {"y": rules.INEXACT_KERNELS.id}


def judged(
    folder: Path,
    body: str,
    x: np.ndarray,
    want: np.ndarray,
    exact: np.ndarray,
    *,
    types: str = "float",
    ties: int = 0,
    other: float = 0.0,
) -> tuple[Validation, list[Finding]]:
    """Validate; the first elements are `ties`, at which other roundings of PyTorch give `other` more."""
    runs = np.repeat(want[None], 8, 0)
    runs[1::2, :ties] += other
    samples = Samples("sample", {"x": x}, {"y": want}, {"y": exact}, roundings=lambda: {"y": runs})
    log, path = Log(), save(folder, f"g ({types}[N] x) => (float[N] y) {{ {body} }}")
    return validate(path, [samples], "cpu", log, isolate=False), list(log.findings)


STEP = "k = Constant <value_float = 0.0> () s = Greater (x, k) c = Cast <to = 1> (s)"
"""In PyTorch it is `>=` here, as it may be where roundings decide."""


@pytest.mark.parametrize(
    ("make", "of", "low", "ids"),
    [
        ("t = Tanh (x)", np.tanh, -3.0, [rules.TIES_LEFT_OUT]),
        ("t = Sigmoid (x)", sigmoid, -14.0, [rules.INEXACT_KERNELS, rules.TIES_LEFT_OUT]),
    ],
    ids=["tanh", "sigmoid"],
)
def test_kernels_are_told_where_they_explain_something(
    make: str, of: Callable[[np.ndarray], np.ndarray], low: float, ids: list[Rule], tmp_path: Path
) -> None:
    """An element at a tie is none of theirs, and takes nothing from what is."""
    x = np.random.default_rng(0).uniform(low, low + 3.0, 1000).astype(np.float32)
    x[:20] = 0.0
    exact = of(x.astype(np.float64))
    want = exact.astype(np.float32)
    validation, found = judged(
        tmp_path, f"{make} {STEP} y = Add (t, c)", x, want + (x >= 0), exact + (x >= 0), ties=20, other=-1.0
    )
    assert validation.passed
    assert [each.rule for each in found] == ids


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    return -np.log1p(np.exp(-x.astype(np.float64)))


def test_an_error_of_one_element_that_can_be_seen_is_no_note(tmp_path: Path) -> None:
    """Sigmoid gives 1.2e-7 for 1.6e-8 there, and a logarithm makes 2 of that."""
    x = np.random.default_rng(0).uniform(-5, 0, 100_000).astype(np.float32)
    x[0] = np.float32(-17.96455)
    exact = log_sigmoid(x)
    validation, found = judged(tmp_path, "s = Sigmoid (x) y = Log (s)", x, exact.astype(np.float32), exact)
    assert [each.rule for each in found] == [rules.INEXACT_KERNELS]
    assert validation.passed
    assert validation.doubts == {"y": rules.INEXACT_KERNELS.id}


def test_operators_whose_kernels_were_not_replaced_are_not_named(tmp_path: Path) -> None:
    body = "k = Constant <value_float = 1e-30> () a = Gelu (x) b = Mul (a, k) s = Sigmoid (x) y = Add (b, s)"
    _, found = judged(tmp_path, body, X, sigmoid(X).astype(np.float32), sigmoid(X))
    assert [each.facts["operators"] for each in found] == [("Sigmoid",)]


def test_kernels_of_float64_do_not_err(tmp_path: Path) -> None:
    """Kernels in float64 are exact, and explain no error of what follows."""
    path = save(tmp_path, "g (double[N] x) => (float[N] y) { s = Sigmoid (x) y = Cast <to = 1> (s) }")
    found = exact_outputs(path, {"x": X.astype(np.float64)}, HERE)
    assert found is not None
    for each in found.erring:
        np.testing.assert_array_equal(each["y"], found.outputs["y"])


def test_one_element_that_no_kernel_explains_is_a_fault() -> None:
    """The errors of the others are no measure of it."""
    x = np.linspace(-14, -8, 5000, dtype=np.float32)
    exact = sigmoid(x).astype(np.float32)
    exact[0] = 0.5
    erring = exact + np.float32(1e-7)
    erring[0] = 0.6
    got = exact.copy()
    found = inexact_kernels.Exact({"y": exact}, ({"y": erring}, {"y": erring}), ("Sigmoid",))
    assert found.explains("y", got, PROVIDERS["cpu"], 0.0)
    got[7] += np.float32(0.1)
    assert not found.explains("y", got, PROVIDERS["cpu"], 0.0)
