"""Repros: a folder that runs without us, fails by the rule that was broken, and is not written if nothing fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import parser

from fxport.diagnostics import Rule, rules
from fxport.ort_runner import Samples
from fxport.ort_runner.parts import Part
from fxport.ort_runner.repro import with_plain_ends, write_repro
from fxport.ort_runner.session import Runtime
from tests.ort_runner.models import HEADER, RELU, floats

HERE = Runtime("cpu", isolate=False)
X = floats(4, 3)
RIGHT = np.maximum(X, 0)
WRONG: dict[str, tuple[np.ndarray, Rule]] = {
    "value": (RIGHT + np.float32(0.01), rules.OUTPUT_DRIFT),
    "shape": (RIGHT[:1], rules.OUTPUT_SHAPE_MISMATCH),
    "type": (RIGHT.astype(np.float64), rules.OUTPUT_TYPE_MISMATCH),
    "nan": (np.where(RIGHT.max() == RIGHT, np.float32(np.nan), RIGHT), rules.NON_FINITE_OUTPUT),
}


def part(want: np.ndarray) -> Part:
    return Part(parser.parse_model(f"{HEADER} {RELU}"), Samples("sample", {"x": X}, {"y": want}))


@pytest.mark.parametrize("name", WRONG)
def test_the_script_fails_as_the_validation_does(tmp_path: Path, name: str) -> None:
    want, rule = WRONG[name]
    made = write_repro(tmp_path / "repro", part(want), HERE, 'It is "wrong" \\ so\nit is')
    assert made is not None
    assert (made.rule, made.nodes) == (rule, 1)
    script = tmp_path / "repro" / "run.py"
    assert len(script.read_text().splitlines()) < 40
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert not done.stderr


def test_what_does_not_fail_is_not_written(tmp_path: Path) -> None:
    assert write_repro(tmp_path / "repro", part(RIGHT), HERE, "") is None
    assert not list(tmp_path.iterdir())


def test_types_that_numpy_lacks_are_cast_at_the_ends(tmp_path: Path) -> None:
    text = "g (bfloat16[3] x) => (bfloat16[3] y) { y = Cast <to = 16> (x) }"
    x = np.array([1, 2, 3], ml_dtypes.bfloat16)
    odd = Part(parser.parse_model(f"{HEADER} {text}"), Samples("s", {"x": x}, {"y": x * x}))
    plain = with_plain_ends(odd)
    assert [node.op_type for node in plain.model.graph.node] == ["Cast", "Cast", "Cast"]
    assert plain.samples.outputs["y.plain"].tolist() == [1, 4, 9]
    made = write_repro(tmp_path / "repro", odd, HERE, "")
    assert made is not None
    assert made.rule is rules.OUTPUT_DRIFT
