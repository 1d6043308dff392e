"""The one log that the tests of the formats share, and the goldens of those formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from fxport.diagnostics import Applicability, Edit, Fix, Frame, Log, Place, Step, rules
from fxport.diagnostics.source import place_of_trace

GOLDEN = Path(__file__).parent / "golden"

MODEL = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x, mask):
        name = "é😀"; y = torch.ops.mylib.twist(self.norm(x), 2)
        y = y * (1.0 - mask)
        return self.head(y)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one model, and the working folder in it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "my model.py").write_text(MODEL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model_file(project: Path) -> str:
    return str(project / "my model.py")


@pytest.fixture
def log(model_file: str) -> Log:
    """A merged note, a warning with a fix and a way, a note without a place, code to paste, and a NaN."""
    trace = (
        f'  File "{model_file}", line 8, in forward\n    return self.head(y)\n'
        f'  File "{model_file}", line 6, in twisted\n'
        '    name = "é😀"; y = torch.ops.mylib.twist(self.norm(x), 2)\n'
    )
    log = Log(clock=_clock())
    with log.stage("capture"):
        log.report(rules.STATE_MUTATED, name="steps", output="steps.updated")
    with log.stage("lower"):
        for layer in range(12):
            at = place_of_trace(
                trace, module=f"encoder.{layer}.twist", node=f"twist_{layer}", call="mylib.twist.default"
            )
            log.report(rules.CUSTOM_OPERATOR_EMITTED, at, op="mylib.twist.default", domain="mylib", onnx_op="Twist")
        cast = Place(
            model_file,
            7,
            call="aten.rsub.Scalar",
            module="encoder",
            stack=(Frame(model_file, 7, "mask"), Frame(model_file, 8, "forward")),
        )
        fix = Fix("Write `1 - mask.to(x.dtype)`.", (Edit(model_file, 7, 18, 7, 28, "1 - mask.to(x.dtype)"),))
        steps = (Step("your line", cast), Step("FX node %rsub", Place("dump/3-promote.fx.py", 4), 1))
        log.report(
            rules.PRECISION_LOWERED, cast, name="rsub", source="float64", target="float32", fixes=[fix], steps=steps
        )
    stub = Fix("Paste a lowering.", applicability=Applicability.PLACEHOLDERS, code="def twist(op, x, n):\n    ...")
    log.report(rules.NO_ONNX_LOWERING, Place(model_file, 8), op="mylib.other.default", fixes=[stub])
    log.report(
        rules.OUTPUT_DRIFT,
        output="y",
        provider="cpu",
        ratio=3.25,
        worst=float("nan"),
        sample="sample",
        cause="not looked for",
    )
    return log


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with golden/<name> of this folder; with --update-golden it writes the file instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"golden/{name} is missing: run pytest --update-golden and read it"
        assert text == path.read_text(encoding="utf-8"), f"differs from golden/{name}"

    return compare


def _clock() -> Callable[[], float]:
    ticks: Iterator[int] = count()
    return lambda: float(next(ticks))
