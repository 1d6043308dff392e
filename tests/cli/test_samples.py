"""Several files of inputs: each is run, and a finding names the one with which it was seen."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

from fxport.diagnostics import Rule, rules
from fxport.diagnostics.sarif.read import findings_of
from fxport.exporter.checks.items import Item
from fxport.exporter.checks.work import result_of
from fxport.exporter.cli import main

Output = pytest.CaptureFixture[str]

MODEL = """\
import torch

class Rectified(torch.nn.Module):
    def forward(self, x, shift=None):
        return torch.relu(x) if shift is None else torch.relu(x + shift)

class Picky(torch.nn.Module):
    def forward(self, x):
        return torch.arange(6.0)[x.long()]
"""
PLUGIN = """\
import torch

def relu(op, x):
    return op.Sub(op.Relu(x), op.Relu(op.Sub(op.Neg(x), 6.0)))  # wrong below -6

LOWERINGS = {torch.ops.aten.relu.default: relu}
"""
ABOVE = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
BELOW = -ABOVE


@pytest.fixture
def files(folder: Path) -> Path:
    (folder / "nets.py").write_text(MODEL)
    (folder / "leaky.py").write_text(PLUGIN)
    numpy.savez(folder / "above.npz", x=ABOVE)
    numpy.savez(folder / "below.npz", x=BELOW)
    numpy.savez(folder / "far.npz", x=BELOW * 9)
    numpy.savez(folder / "long.npz", x=numpy.ones((7, 3), numpy.float32))
    numpy.savez(folder / "both.npz", x=ABOVE, shift=BELOW)
    torch.save({"x": torch.zeros(2, 3)}, folder / "zeros.pt")
    return folder


def ended(*arguments: str) -> int:
    return main([*arguments, "--no-bisect"])


def test_each_file_is_a_sample(files: Path, capsys: Output) -> None:
    given = ["--inputs", "above.npz", "--inputs", "long.npz", "--inputs", "zeros.pt"]
    assert ended("export", "nets.py:Rectified", *given, "--dynamic", "x:0=rows") == 0
    told = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.endswith(" no error")]
    assert told[:4] == ["above.npz", "long.npz", "zeros.pt", "resized"]


def test_a_finding_names_the_file(files: Path, capsys: Output) -> None:
    given = ["--inputs", "above.npz", "--inputs", "far.npz", "--plugin", "leaky"]
    assert ended("export", "nets.py:Rectified", "--inputs", "above.npz", "--plugin", "leaky") == 0
    assert ended("export", "nets.py:Rectified", *given) == 1
    assert "Seen with the inputs 'far.npz'." in capsys.readouterr().out
    assert ended("validate", "Rectified.onnx", "--against", "nets.py:Rectified", *given[:4]) == 1
    assert "Seen with the inputs 'far.npz'." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "other", "rule", "part"),
    [
        ("Rectified", "long.npz", rules.CONTRACT_BROKEN, "Seen with the inputs 'long.npz'."),
        ("Rectified", "both.npz", rules.INPUT_MISMATCH, "other inputs than the model was captured with"),
        ("Picky", "far.npz", rules.INPUT_MISMATCH, "Seen with the inputs 'far.npz'."),
    ],
)
def test_a_sample_that_does_not_fit(files: Path, capsys: Output, model: str, other: str, rule: Rule, part: str) -> None:
    assert ended("export", f"nets.py:{model}", "--inputs", "above.npz", "--inputs", other) == 1
    said = capsys.readouterr().out
    assert rule.id in said
    assert part in said
    assert other in said


def test_usage(files: Path, capsys: Output) -> None:
    twice = ["--inputs", "above.npz", "--inputs", "./above.npz"]
    assert ended("export", "nets.py:Rectified", *twice) == 2
    assert "names a file twice" in capsys.readouterr().err
    numpy.savez("shift.npz", shift=ABOVE)
    assert ended("export", "nets.py:Rectified", "--inputs", "above.npz", "--inputs", "shift.npz") == 2
    assert "of 'shift.npz' do not fit" in capsys.readouterr().err
    numpy.savez("other.npz", y=ABOVE)
    assert ended("export", "nets.py:Rectified", "--inputs", "above.npz", "--inputs", "other.npz") == 2
    assert "forward has no argument 'y', which 'other.npz' gives" in capsys.readouterr().err


def test_a_manifest_names_several(files: Path) -> None:
    item = Item("m", "m", "nets.py:Rectified", 23, "cpu", samples=("above.npz", "far.npz"), plugin=("leaky",))
    result = result_of(item, files / "m.onnx", {}, lambda stage: None)
    assert [sample["label"] for sample in result["facts"]["samples"]] == ["above.npz", "far.npz"]
    (finding,) = findings_of(result["sarif"])
    assert finding.rule == rules.OUTPUT_DRIFT
    assert "Seen with the inputs 'far.npz'." in finding.message
