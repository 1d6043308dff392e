"""Errors of one sign: a wrong factor or offset is found below the size of single errors, sound kernels are not."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fxport.ort_runner.compare import compare

Function = Callable[[np.ndarray], np.ndarray]
TYPES = {"bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16), "float32": np.dtype(np.float32)}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def normed(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attended(x: np.ndarray) -> np.ndarray:
    scores = x @ x.T / np.sqrt(x.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ x


def mixed(x: np.ndarray) -> np.ndarray:
    return x @ np.random.default_rng(1).standard_normal((x.shape[-1], x.shape[-1])) / np.sqrt(x.shape[-1])


STEPS: dict[str, Function] = {
    "sigmoid": sigmoid,
    "norm": normed,
    "attention": attended,
    "linear": mixed,
    "tanh": np.tanh,
    "residual": lambda x: x + np.tanh(mixed(x)),
    "relu": lambda x: np.maximum(x, 0),
    "gate": lambda x: x * sigmoid(x),
}


def run(
    steps: list[str], x: np.ndarray, dtype: np.dtype | None, jitter: int, fault: tuple[int, Function] | None = None
) -> np.ndarray:
    """The steps one after the other, each rounded to a type, as kernels do that compute in a wider one.

    `jitter` seeds differences of a quarter of a rounding unit before each rounding: another sound kernel.
    """
    rng = np.random.default_rng(jitter)
    for number, name in enumerate(steps):
        x = STEPS[name](x)
        if fault is not None and fault[0] == number:
            x = fault[1](x)
        if dtype is not None:
            unit = float(ml_dtypes.finfo(dtype).eps)
            x = (x * (1 + rng.uniform(-unit, unit, x.shape) / 4)).astype(dtype).astype(np.float64)
    return x if dtype is None else x.astype(dtype)


def drawn(rows: int, columns: int, offset: float, seed: int, dtype: np.dtype) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, columns)) + offset
    return x.astype(dtype).astype(np.float64)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(TYPES)),
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8),
    st.sampled_from([(1, 2048), (16, 128), (64, 64), (128, 32)]),
    st.sampled_from([0.0, 0.0, 1.0, 10.0]),
    st.integers(0, 2**32 - 1),
)
def test_a_sound_kernel_has_no_error_of_one_sign(
    kind: str, steps: list[str], shape: tuple[int, int], offset: float, seed: int
) -> None:
    dtype = TYPES[kind]
    x = drawn(*shape, offset, seed, dtype)
    gap = compare(run(steps, x, dtype, 1), run(steps, x, dtype, 2), run(steps, x, None, 0))
    assert gap.ratio <= 1.0


FAULTS: dict[str, Function] = {
    "a factor of 1.3": lambda x: x * 1.3,
    "a factor of 1.05": lambda x: x * 1.05,
    "an offset": lambda x: x + 0.05,
    "a lost sign": np.abs,
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "steps",
    [
        ["linear", "sigmoid"],
        ["norm", "linear", "residual", "gate", "residual", "residual", "linear"],
        ["attention", "residual", "gate", "linear", "residual", "gate"],
    ],
    ids=["two", "seven", "attention"],
)
@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
def test_a_fault_of_one_sign_is_found(kind: str, fault: str, steps: list[str], place: int) -> None:
    if steps[place] == "sigmoid" and fault == "a lost sign":
        pytest.skip("a sigmoid has no sign to lose")
    dtype = TYPES[kind]
    x = drawn(64, 64, 0.0, 0, dtype)
    at = place % len(steps)
    got = run(steps, x, dtype, 2, (at, FAULTS[fault]))
    assert compare(run(steps, x, dtype, 1), got, run(steps, x, None, 0)).too_big
