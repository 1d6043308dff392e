"""What a new user meets in the first hour: each mistake says what happened, where, and what to do."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from fxport.diagnostics import Log, rules, sarif
from fxport.exporter.checks.in_test import without_traces
from fxport.exporter.cli import main, ops
from fxport.exporter.sources.dynamic import parse_dynamic
from fxport.exporter.sources.source import init_of
from fxport.exporter.sources.usage import UsageError

Output = pytest.CaptureFixture[str]

MORE = """\
import torch
from torch import nn


class Sparse(nn.Module):
    def forward(self, x):
        return x.to_sparse().coalesce()  # fxport: ignore[FXP3001] live with it


class Exits(nn.Module):
    def forward(self, x):
        raise SystemExit(0)


class Stops(nn.Module):
    def forward(self, x):
        breakpoint()
        return x


class Crashes(nn.Module):
    def forward(self, x):
        import os, signal
        os.kill(os.getpid(), signal.SIGSEGV)
        return x


class Spectrum(nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x), "text"


class Nothing(nn.Module):
    def forward(self, x):
        self.result = x + 1


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x + self.pos


class Masked(nn.Module):
    def forward(self, x, mask):
        return x * mask


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(2 * 7, 16)


class Joined(nn.Module):
    def forward(self, x, past):
        before = past * 2
        return x + before


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.rows = nn.Bilinear(3, 3, 2), nn.Embedding(9, 2)

    def forward(self, x, mask):
        return self.mix(x, mask) if mask.ndim == 2 else self.rows(x)


class Sized(nn.Module):
    def __init__(self, hidden, act="relu"):
        super().__init__()
        self.linear, self.act = nn.Linear(3, hidden), act

    def forward(self, x):
        return getattr(torch, self.act)(self.linear(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3)])

    def forward(self, x):
        return self.layers[0](x)


class Padded(nn.Module):
    def forward(self, x):
        return torch.cat([x, torch.ones(64 - x.shape[0], x.shape[1])])
"""


@pytest.fixture
def more(folder: Path) -> Path:
    (folder / "more.py").write_text(MORE, encoding="utf-8")
    return folder


def findings(capsys: Output) -> list[dict]:
    return json.loads(capsys.readouterr().out)["findings"]


def test_an_exit_in_forward_is_a_finding_at_its_line(more: Path, capsys: Output) -> None:
    assert main(["export", "more.py:Exits", "--input", "x=2x3", "--format", "json", "--sarif", "log.sarif"]) == 1
    (found,) = findings(capsys)
    assert (found["rule"], found["place"]["line"]) == ("FXP1023", 12)
    assert "SystemExit: 0" in found["message"]
    assert Path("log.sarif").is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the fault handler of Python writes the stack")
@pytest.mark.usefixtures("real_processes")
def test_a_crash_in_forward_is_a_finding_at_its_line(more: Path) -> None:
    command = [sys.executable, "-m", "fxport", "export", "more.py:Crashes", "--input", "x=2x3", "--sarif", "log.sarif"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stderr
    assert "error[FXP9003]" in done.stdout
    assert "the process crashed (SIGSEGV: Segmentation fault) while this line ran" in done.stdout
    run = json.loads(Path("log.sarif").read_text())["runs"][0]
    assert run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] == 24
    assert run["invocations"][0]["executionSuccessful"] is False


def test_breakpoint_without_a_terminal_is_a_finding_at_its_line(more: Path, capsys: Output) -> None:
    assert main(["export", "more.py:Stops", "--input", "x=2x3", "--format", "json"]) == 1
    (found,) = findings(capsys)
    assert (found["rule"], found["place"]["line"]) == ("FXP1023", 17)
    assert "breakpoint() was called and there is no terminal" in found["message"]


def test_inputs_that_do_not_fit_are_a_finding_also_when_they_were_typed(folder: Path, capsys: Output) -> None:
    assert main(["export", "models.py:linear", "--input", "x=2x5", "--format", "json", "--sarif", "log.sarif"]) == 1
    assert [each["rule"] for each in findings(capsys)] == ["FXP1023"]
    assert json.loads(Path("log.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "FXP1023"


def test_a_failed_export_says_that_the_file_there_is_of_an_earlier_run(more: Path, capsys: Output) -> None:
    Path("old.onnx").write_bytes(b"of yesterday")
    assert main(["export", "more.py:Sparse", "--input", "x=2x3", "-o", "old.onnx"]) == 1
    said = capsys.readouterr()
    assert "no model was written; 'old.onnx' is of an earlier run" in said.err
    assert "has no effect. Reason: an error that stops the export cannot be ignored." in said.out
    assert Path("old.onnx").read_bytes() == b"of yesterday"
    assert main(["export", "models.py:Adder", "--input", "x=2x3", "-o", "old.onnx"]) == 0
    assert "earlier run" not in capsys.readouterr().err


# Arguments of the class, bounds of a dim --------------------------------------------------------------------------


def test_arguments_of_the_class(more: Path, capsys: Output) -> None:
    asked = ["--init", "hidden=7", "--init", "act=tanh", "--input", "x=2x3"]
    assert main(["export", "more.py:Sized", *asked, "--no-validate"]) == 0
    graph = onnx.load("Sized.onnx").graph
    assert graph.output[0].type.tensor_type.shape.dim[1].dim_value == 7
    assert "Tanh" in {node.op_type for node in graph.node}
    assert main(["export", "more.py:Sized", "--input", "x=2x3"]) == 2
    assert "give --init hidden=…, or write a function" in capsys.readouterr().err
    assert main(["export", "more.py:Sized", "--init", "width=3", "--input", "x=2x3"]) == 2
    assert "'more.py:Sized' has no argument 'width'." in capsys.readouterr().err
    assert main(["export", "models.py:adder", "--init", "width=3", "--input", "x=2x3"]) == 2
    assert "is made already; leave --init out" in capsys.readouterr().err


def test_values_of_arguments() -> None:
    texts = ["a=3", "b=1.5", "c=True", "d=relu", "e=(1, 2)", "f='x'", "g=None"]
    assert init_of(texts) == {"a": 3, "b": 1.5, "c": True, "d": "relu", "e": (1, 2), "f": "x", "g": None}
    for wrong, said in ((["3"], "no NAME=VALUE"), (["a=1", "a=2"], "twice")):
        with pytest.raises(UsageError, match=said):
            init_of(wrong)


def test_bounds_of_a_dim(more: Path, capsys: Output) -> None:
    call = ["export", "more.py:Padded", "--input", "x=5x4", "--format", "json", "--dynamic"]
    assert main([*call, "x:0=rows"]) == 0
    told = findings(capsys)
    assert [each["rule"] for each in told] == ["FXP2002"]
    assert "--dynamic x:0=rows[..64]" in told[0]["fixes"][0]["description"]
    assert main([*call, "x:0=rows[1..64]"]) == 0
    assert findings(capsys) == []


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("x:0=n[1..64]", (1, 64)), ("x:0=n[2..]", (2, None)), ("x:0=n[..8]", (None, 8)), ("x:0=n", (None, None))],
)
def test_forms_of_bounds(text: str, bounds: tuple[int | None, int | None]) -> None:
    _, dims = parse_dynamic(text)
    assert (dims[0].name, dims[0].low, dims[0].high) == ("n", *bounds)


@pytest.mark.parametrize("text", ["x:0=n[1-64]", "x:0=n[9..8]", "x:0=n[8..8]", "x:0=n[a..b]"])
def test_bounds_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"n\["):
        parse_dynamic(text)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("x=2x3:fp16", "Did you mean 'float16'?"),
        ("x=2x3:i64", "Did you mean 'int64'?"),
        ("x=2x3:zzz", "such as float32"),
        ("x=2,3", "NAME=3:float32 for a vector"),
    ],
)
def test_forms_of_inputs(folder: Path, capsys: Output, asked: str, said: str) -> None:
    assert main(["export", "models.py:Adder", "--input", asked]) == 2
    assert said in capsys.readouterr().err


def test_results_that_are_no_tensors_and_complex_ones_are_told(more: Path, capsys: Output) -> None:
    assert main(["export", "more.py:Spectrum", "--input", "x=2x6", "--format", "json"]) == 0
    found = findings(capsys)
    assert {each["rule"] for each in found} == {rules.OUTPUT_ALTERED.id}
    told = {each["facts"]["output"]: each["message"] for each in found}
    assert "its last dim of size 2 holds real and imaginary parts" in told["output.0"]
    assert "It is 'text', which is no tensor, so the model does not have it" in told["output.1"]


def test_a_model_that_gives_nothing_is_an_error_and_no_file(more: Path, capsys: Output) -> None:
    assert main(["export", "more.py:Nothing", "--input", "x=2x6", "--format", "json"]) == 1
    assert rules.NO_OUTPUT.id in {each["rule"] for each in findings(capsys)}
    assert not Path("Nothing.onnx").exists()


def test_an_output_may_have_the_name_of_a_parameter(more: Path, capsys: Output) -> None:
    assert main(["export", "more.py:Named", "--input", "x=2x3", "--output-names", "pos"]) == 0
    assert "equal to PyTorch" in capsys.readouterr().out
    graph = onnx.load("Named.onnx").graph
    assert [value.name for value in graph.output] == ["pos"]
    assert [value.name for value in graph.initializer] == ["pos.weight"]


@pytest.mark.parametrize(
    ("name", "inputs", "advice"),
    [
        ("Layer", ["x=3x3"], "'self.layers[0]' takes one size there, that of its weights or settings: leave 'n'"),
        ("Fixed", ["x=2x7x16"], "'reshape' has sizes as numbers here (`2 * 7`, `16`): write -1"),
        (
            "Joined",
            ["x=2x3", "past=2x3"],
            "comes from 'past': make its dim dynamic, too, `--dynamic past:INDEX=n`",
        ),
        (
            "Mixed",
            ["x=2x3", "mask=2x3"],
            "'self.mix' takes 'mask', too: if the size is the same there, make it dynamic, `--dynamic mask:INDEX=n`",
        ),
    ],
)
def test_what_fixes_a_dim_is_named(more: Path, capsys: Output, name: str, inputs: list[str], advice: str) -> None:
    call = [part for each in inputs for part in ("--input", each)]
    axis = 1 if name == "Layer" else 0
    assert main(["export", f"more.py:{name}", *call, "--dynamic", f"x:{axis}=n"]) == 1
    said = capsys.readouterr().out
    assert "FXP2001" in said
    assert advice in said


def test_floats_for_an_embedding_are_told_how_to_be_integers(more: Path, capsys: Output) -> None:
    assert main(["export", "more.py:Mixed", "--input", "x=2x3", "--input", "mask=3:float32"]) == 1
    said = capsys.readouterr().out
    assert "Give integers, below the number of rows: `--input ids=2x7:int64:0..99`" in said


# Answers without torch --------------------------------------------------------------------------------------------


def test_the_list_of_operators_is_that_of_the_lowerings() -> None:
    path = Path(ops.__file__).with_name(ops.FILE)
    assert path.read_text(encoding="utf-8") == ops.written(), f"write it again: {ops.FILE}, see exporter/cli/ops.py"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["ops", "relu"], 0),
        (["export", "models.py:Adder", "--input", "x=2x3", "--predict", "banana"], 2),
        (["export", "models.py:Adder", "--input", "x=2,3"], 2),
        (["export", "models.py:Adder", "--provider", "gpu"], 2),
        (["export", "models.py:Adder", "--opset", "9"], 2),
        (["export", "models.py:Adder", "--dynamic", "batch"], 2),
        (["export", "nothing.py:Adder"], 2),
        (["export", "."], 2),
        (["validate", "nothing.onnx", "--against", "models.py:Adder"], 2),
        (["place", "models.py", "--predict", "banana"], 2),
        (["explain", "FXP2001"], 0),
    ],
)
def test_what_needs_no_torch_imports_none(folder: Path, arguments: list[str], code: int) -> None:
    lines = ["import sys", "from fxport.exporter.cli import main", f"code = main({arguments})"]
    text = "\n".join([*lines, "sys.exit(9 if 'torch' in sys.modules else code)"])
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, check=False, timeout=300)
    assert done.returncode == code, done.stderr


def test_traces_of_torch_are_no_part_of_a_failed_test(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("torch.__trace")
    with without_traces(), caplog.at_level(logging.DEBUG, "torch.__trace"):
        logger.debug("a page of json")
    assert caplog.records == []
    assert logger.filters == []


def test_the_operand_that_is_cast_is_the_one_to_change(more: Path, capsys: Output) -> None:
    call = ["--input", "x=2x3", "--input", "mask=2x3:int64", "--format", "json", "--no-validate"]
    assert main(["export", "more.py:Masked", *call]) == 0
    (found,) = findings(capsys)
    assert [fix["description"] for fix in found["fixes"]] == ["Cast 'mask' where it is used."]


def test_the_id_of_a_run_does_not_depend_on_the_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".git").mkdir()
    (folder / "inner").mkdir()
    ids = set()
    for where, source_text in ((folder, "models.py:f"), (folder / "inner", "../models.py:f")):
        monkeypatch.chdir(where)
        about = sarif.About(model=source_text, run="export", command=["fxport", "--token", "a b", "x y"])
        run = json.loads(sarif.as_text(sarif.to_sarif(Log(), about=about)))["runs"][0]
        ids.add(run["automationDetails"]["id"])
        assert run["invocations"][0]["commandLine"] == "fxport --token *** 'x y'"
    assert ids == {"fxport/models.py:f/export"}
