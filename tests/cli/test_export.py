"""`fxport export` from the command line to the file: what it writes, what it says, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import onnx
import onnxruntime
import pytest
import torch

import fxport
from fxport.exporter.cli import main
from fxport.exporter.validation import request
from fxport.exporter.validation.summary import modules

Output = pytest.CaptureFixture[str]


def dims_of(value: onnx.ValueInfoProto) -> list[object]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_the_file_runs_and_the_summary_says_so(folder: Path, capsys: Output) -> None:
    assert main(["export", "models.py:Adder", "--input", "x=2x3", "--dynamic", "x:0=rows"]) == 0
    session = onnxruntime.InferenceSession("Adder.onnx", providers=["CPUExecutionProvider"])
    (out,) = session.run(None, {"x": numpy.full((5, 3), 2.0, numpy.float32)})
    assert numpy.array_equal(numpy.asarray(out), numpy.full((5, 3), 2.0, numpy.float32))
    said = capsys.readouterr()
    for part in ("Adder.onnx (", "opset ", "float32 [rows, 3]", "sample", "resized", "cpu", "load ", "capture "):
        assert part in said.out
    assert said.err == ""
    assert len(said.out.splitlines()) <= 24


def test_inputs_and_dims_of_the_source(folder: Path) -> None:
    assert main(["export", "models:with_all", "-o", "out.onnx", "--opset", "18"]) == 0
    model = onnx.load("out.onnx")
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == 18
    assert dims_of(model.graph.input[0]) == ["rows", 3]


def test_names_of_inputs_and_outputs(folder: Path) -> None:
    names = ["--input-names", "left,right", "--output-names", "total"]
    tensors = ["--input", "x=2x3", "--input", "y=3:float32"]
    assert main(["export", "models.py:Adder", *tensors, "-o", "a.onnx", *names]) == 0
    graph = onnx.load("a.onnx").graph
    assert [value.name for value in graph.input] == ["left", "right"]
    assert [value.name for value in graph.output] == ["total"]


def test_an_exported_program(folder: Path) -> None:
    torch.export.save(torch.export.export(torch.nn.Identity(), (torch.ones(2, 3),)), "identity.pt2")
    assert main(["export", "identity.pt2", "--no-validate"]) == 0
    assert Path("identity.onnx").is_file()


BIG = """\
import torch


class Big(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(4096.0))

    def forward(self, x):
        return x + self.table
"""


def test_external_data(folder: Path, capsys: Output) -> None:
    (folder / "big.py").write_text(BIG)
    assert main(["export", "big.py:Big", "--input", "x=4096", "--external-data", "yes"]) == 0
    assert Path("Big.onnx").stat().st_size < 8192
    (data,) = Path().glob("Big.onnx.*.data")
    assert data.stat().st_size >= 16384
    assert f"{data} (" in capsys.readouterr().out
    assert main(["export", "big.py:Big", "--input", "x=4096", "--external-data", "no"]) == 0
    assert Path("Big.onnx").stat().st_size > 16384
    assert not data.exists()


def test_dump_and_sarif_and_profile(folder: Path) -> None:
    arguments = ["--dump", "dumped", "--sarif", "log.sarif", "--profile", "profile.json", "--no-validate"]
    assert main(["export", "models.py:Adder", "--input", "x=2x3", *arguments]) == 0
    assert any(Path("dumped").rglob("*"))
    assert json.loads(Path("log.sarif").read_text())["version"] == "2.1.0"
    frames = json.loads(Path("profile.json").read_text())["shared"]["frames"]
    assert "export_and_validate" in {frame["name"] for frame in frames}


UNKNOWN_OPS = """\
import torch
from torch import Tensor, nn


@torch.library.custom_op("fxport_cli_test::bend", mutates_args=())
def bend(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy().copy())


@torch.library.custom_op("fxport_cli_test::fold", mutates_args=())
def fold(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy().copy())


@torch.library.custom_op("fxport_cli_test::join", mutates_args=())
def join(x: Tensor, y: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy() + y.numpy())


bend.register_fake(torch.empty_like)
fold.register_fake(torch.empty_like)
join.register_fake(lambda x, y: torch.empty_like(x))


class Model(nn.Module):
    def forward(self, x):
        first = bend(x)
        second = bend(first + 1)
        return join(fold(second), x)
"""


def test_all_unknown_ops_are_told_at_once(folder: Path, capsys: Output) -> None:
    (folder / "unknown.py").write_text(UNKNOWN_OPS)
    assert (
        main(["export", "unknown.py:Model", "--input", "x=3:float32", "--format", "json", "--sarif", "log.sarif"]) == 1
    )
    findings = json.loads(capsys.readouterr().out)["findings"]
    told = {(finding["facts"]["op"], finding["place"]["line"], finding["count"]) for finding in findings}
    assert told == {
        ("fxport_cli_test.bend.default", 27, 2),
        ("fxport_cli_test.fold.default", 29, 1),
        ("fxport_cli_test.join.default", 29, 1),
    }
    assert all(Path(finding["place"]["path"]).name == "unknown.py" for finding in findings)
    assert not Path("Model.onnx").exists()
    assert len(json.loads(Path("log.sarif").read_text())["runs"][0]["results"]) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["models.py:NeedsWidth"], "without arguments"),
        (["models.py:linear"], "comes without example inputs"),
        (["models.py:broken"], "at models.py:60"),
        (["models.py:Adder", "--input", "x=2x3", "--opset", "17"], "opset 17 is out of range"),
        (["models.py:Adder", "--input", "x=2x3", "--opset", "27"], "opset 27 is out of range"),
        (["models.py:Adder", "--input", "x=2x3", "--provider", "gpu"], "provider 'gpu' is unknown"),
        (["models.py:Adder", "--input", "x=2x3", "--dynamic", "x:0=a", "--dynamic", "x:5=b"], "there is no dim 5"),
        (["models.py:Adder", "--input", "x=2x3", "--plugin", "nothing.like.it"], "There is no module 'nothing'"),
        (["models.py:Adder", "--input", "x=2x3", "--plugin", "models"], "'models' has no 'LOWERINGS'"),
        (["models.py:Adder", "--input", "x=2x3", "--output-names", "a,b"], "output_names"),
        (["models.py:Adder", "--input", "x=2x3", "--input-names", "a,b,c"], "input_names"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    folder: Path, capsys: Output, arguments: list[str], said: str
) -> None:
    before = {path for path in folder.rglob("*") if "__pycache__" not in path.parts}
    assert main(["export", *arguments, "--sarif", "log.sarif"]) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert len(output.err.splitlines()) == 1
    assert output.out == ""
    assert {path for path in folder.rglob("*") if "__pycache__" not in path.parts} == before


def test_a_fault_of_ours(folder: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: object) -> None:
        raise AssertionError("planted")

    monkeypatch.setattr(request, "exported", fault)
    assert main(["export", "models.py:Adder", "--input", "x=2x3", "--sarif", "log.sarif"]) == 3
    assert "FXP9001" in capsys.readouterr().out
    assert json.loads(Path("log.sarif").read_text())["runs"][0]["invocations"][0]["executionSuccessful"] is False


SLOW = """\
import time
from torch import nn


class Slow(nn.Module):
    def forward(self, x):
        print("inside", flush=True)
        time.sleep(60)
        return x
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent by other means there")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_reported_and_leaves_no_file(folder: Path) -> None:
    (folder / "slow.py").write_text(SLOW)
    arguments = ["export", "slow.py:Slow", "--input", "x=2", "--sarif", "log.sarif"]
    with subprocess.Popen(
        [sys.executable, "-m", "fxport", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "inside\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said.strip() == "fxport: interrupted"
    assert not Path("Slow.onnx").exists()
    assert json.loads(Path("log.sarif").read_text())["runs"][0]["invocations"][0]["executionSuccessful"] is False


def test_validate_a_file(folder: Path, capsys: Output) -> None:
    assert main(["export", "models.py:Adder", "--input", "x=2x3"]) == 0
    right = ["validate", "Adder.onnx", "--against", "models.py:Adder", "--input", "x=2x3"]
    assert main([*right, "--runtime", "reference", "--runtime", "onnxruntime"]) == 0
    assert "equal to PyTorch on reference" in capsys.readouterr().out
    assert main([*right, "--input", "scale=3.0", "--runtime", "reference"]) == 1
    said = capsys.readouterr()
    assert "FXP5002" in said.out
    assert "PyTorch is alone; onnxruntime and reference agree" in said.out
    assert main([*right, "--runtime", "referense"]) == 2
    assert "runtime 'referense' is unknown. Did you mean 'reference'" in capsys.readouterr().err
    (folder / "garbage.onnx").write_bytes(b"\x00garbage")
    assert main(["validate", "garbage.onnx", "--against", "models.py:Adder", "--input", "x=2x3"]) == 2
    assert main(["validate", "missing.onnx", "--against", "models.py:Adder", "--input", "x=2x3"]) == 2


def test_the_summary_tells_what_the_modules_became() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU()), torch.nn.Linear(8, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    net = fxport.export(Net(), (torch.ones(2, 3),))
    assert list(modules(net.log.parts)) == ["  modules  body 2 nodes, 128 B; head 1 node, 72 B"]
    assert list(modules(fxport.export(torch.nn.Linear(3, 2), (torch.ones(2, 3),)).log.parts)) == []


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")
def test_an_output_that_is_a_link_is_validated_where_it_points(folder: Path) -> None:
    (folder / "big.py").write_text(BIG)
    (folder / "there").mkdir()
    Path("Big.onnx").symlink_to(folder / "there" / "real.onnx")
    assert main(["export", "big.py:Big", "--input", "x=4096", "--external-data", "yes"]) == 0
    assert Path("Big.onnx").is_symlink()
    assert {file.suffix for file in (folder / "there").iterdir()} == {".onnx", ".data"}
