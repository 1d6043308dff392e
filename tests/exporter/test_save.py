"""What is on disk after a save: everything, or what was there before."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

from exporter import OnnxProgram, export
from exporter.save import save


class Scaled(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(size, dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


def program(size: int = 4096) -> OnnxProgram:
    return export(Scaled(size), (torch.zeros(size),))


def run(path: Path, size: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.ones(size, np.float32)})[0]


def test_one_file_below_the_limit(tmp_path: Path) -> None:
    assert program().save(tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", 4096), np.arange(4096) + 1)


def test_weights_beside_the_model_on_demand(tmp_path: Path) -> None:
    made = program()
    written = made.save(tmp_path / "m.onnx", external_data=True)
    assert [finding.rule.name for finding in made.log.findings] == ["ExternalDataWritten"]
    assert [path.name for path in written] == ["m.onnx", "m.onnx.data"]
    assert written[0].stat().st_size < 2000
    np.testing.assert_array_equal(run(tmp_path / "m.onnx", 4096), np.arange(4096) + 1)
    (weight,) = [t for t in onnx.load(written[0], load_external_data=False).graph.initializer if t.external_data]
    assert {entry.key: entry.value for entry in weight.external_data}["location"] == "m.onnx.data"


def test_weights_beside_the_model_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.save.SINGLE_FILE_LIMIT", 1000)
    assert len(program().save(tmp_path / "m.onnx")) == 2


def test_data_of_an_earlier_model_goes(tmp_path: Path) -> None:
    program().save(tmp_path / "m.onnx", external_data=True)
    program().save(tmp_path / "m.onnx", external_data=False)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_failing_save_leaves_what_was_there(tmp_path: Path) -> None:
    made = program()
    made.save(tmp_path / "m.onnx", external_data=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    weight = made.model.graph.initializers["weight"]

    def disk_is_full() -> ir.TensorProtocol:
        raise OSError(28, "No space left on device")

    weight.const_value = ir.LazyTensor(disk_is_full, dtype=ir.DataType.FLOAT, shape=ir.Shape([4096]), name="weight")
    with pytest.raises(OSError, match="No space left"):
        save(made.model, tmp_path / "m.onnx", True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_killed_save_leaves_no_model(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time
        import onnx_ir as ir
        from exporter.save import save
        from tests.exporter.test_save import program
        made = program()
        def hang():
            print("writing", flush=True)
            time.sleep(60)
        made.model.graph.initializers["weight"].const_value = ir.LazyTensor(
            hang, dtype=ir.DataType.FLOAT, shape=ir.Shape([4096]), name="weight")
        save(made.model, sys.argv[1], True)
        """
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "m.onnx")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "writing\n"
        time.sleep(0.1)
        child.send_signal(signal.SIGKILL)
    assert not (tmp_path / "m.onnx").exists()
    assert not (tmp_path / "m.onnx.data").exists()


def test_nothing_is_read_before_save() -> None:
    tensor = program().model.graph.initializers["weight"].const_value
    assert isinstance(tensor, ir.LazyTensor)
    assert tensor._tensor is None


@pytest.mark.slow
def test_more_than_two_gigabytes(tmp_path: Path) -> None:
    size = 600_000_000
    written = program(size).save(tmp_path / "m.onnx")
    assert written[1].stat().st_size >= 4 * size
    assert run(tmp_path / "m.onnx", size)[-1] == np.float32(size - 1) + 1
