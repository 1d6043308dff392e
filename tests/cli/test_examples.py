"""The examples, as a reader would run them."""

import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest
from safetensors.numpy import load_file

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
    assert all(f"examples/{path.name}" in text for path in EXAMPLES.glob("*.py"))
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*SHAPES, "own_model", "digits", "lora", "lora_on_device"}


WATCHED = """
import runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
assert not {"torch", "transformers"} & sys.modules.keys(), "PyTorch is in the process"
"""


def test_an_adaptation_is_trained_and_evaluated_without_pytorch(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    source, layers = (EXAMPLES / "lora.py").read_text(encoding="utf-8"), "num_hidden_layers=2"
    assert layers in source
    Path("lora.py").write_text(source.replace(layers, "num_hidden_layers=1"), encoding="utf-8")  # half the time
    assert main(["train-step", "lora.py:step", "--evaluate", "-o", "lora.onnx"]) == 0
    said = capsys.readouterr().out
    assert "second step" in said
    assert "not validated" not in said
    command = [
        "-c",
        WATCHED,
        str(EXAMPLES / "lora_on_device.py"),
        "lora.onnx",
        "--epochs",
        "2",
        "--save",
        "own.safetensors",
    ]
    ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    before, *epochs = [float(line.split()[-4]) for line in ran.stdout.splitlines() if "unseen" in line]
    assert len(epochs) == 2
    assert before > epochs[0] > epochs[1]
    held = load_file("own.safetensors")
    assert len(held) == 4
    assert all(".lora_" in name for name in held)
