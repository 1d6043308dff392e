"""The examples, as a reader would run them."""

from pathlib import Path

import onnxruntime
import pytest

from fxport.exporter.cli import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Input shapes with the names of their dims, as examples/README.md promises them.
TOKENS = {"input_ids": ["batch", "sequence"], "attention_mask": ["batch", "sequence"]}
SHAPES = {"resnet": {"images": ["batch", 3, 64, 64]}, "bert": TOKENS, "llama": TOKENS}


@pytest.mark.parametrize("name", SHAPES)
def test_an_example_is_exported_and_validated(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    assert main(["export", f"{EXAMPLES / name}.py:model", "-o", f"{name}.onnx"]) == 0
    said = capsys.readouterr().out
    assert "sample" in said
    assert "resized" in said
    session = onnxruntime.InferenceSession(f"{name}.onnx", providers=["CPUExecutionProvider"])
    assert {value.name: value.shape for value in session.get_inputs()} == SHAPES[name]


def test_the_line_that_cannot_be_exported_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / "own_model.py"
    assert main(["export", f"{path}:Detector", "--input", "points=8x4x4"]) == 1
    said = capsys.readouterr().out
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "to_sparse" in text)
    assert "FXP3001" in said
    assert f"own_model.py:{line}:" in said
    assert not Path("Detector.onnx").exists()


def test_every_example_is_in_the_readme() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"examples/{path.name}:" in text for path in EXAMPLES.glob("*.py"))
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SHAPES, "own_model", "digits"}
