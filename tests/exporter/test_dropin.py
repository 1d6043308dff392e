"""`fxport.onnx.export`: each argument of `torch.onnx.export` is honoured, or refused by its name."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from fxport import ExportError, Log, Op, Options
from fxport.diagnostics import rules
from fxport.onnx import ExportWarning, ONNXProgram, export

X = torch.tensor([[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])


class Net(nn.Module):
    """A weight above a kilobyte, and one that is stored in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 300)
        self.second = nn.Linear(300, 2)

    def forward(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        y = self.second(torch.relu(self.first(x)))
        return y if scale is None else y * scale


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


def run(file: Path | bytes, **inputs: Tensor) -> list[Tensor]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model = file if isinstance(file, bytes) else str(file)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return [torch.from_numpy(each) for each in session.run(None, {name: x.numpy() for name, x in inputs.items()})]


def close(got: Any, want: Tensor) -> None:
    torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)


def test_the_arguments_are_those_of_torch() -> None:
    ours, theirs = (inspect.signature(each).parameters for each in (export, torch.onnx.export))
    for name, parameter in theirs.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default), name
    assert set(ours) - set(theirs) == {"fallback", "lowerings", "weights", "provider", "options", "log"}


# Where the model goes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_path", [str, Path])
def test_f_is_a_path(as_path: Callable[[Path], Any], model: nn.Module, tmp_path: Path) -> None:
    program = export(model, (X,), as_path(tmp_path / "m.onnx"))
    assert isinstance(program, ONNXProgram)
    assert len([*tmp_path.iterdir()]) == 2  # external_data is True by default, as in torch
    close(run(tmp_path / "m.onnx", x=X)[0], model(X))


def test_f_is_a_file_object(model: nn.Module, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    export(model, X, buffer)
    close(run(buffer.getvalue(), x=X)[0], model(X))
    with (tmp_path / "m.onnx").open("wb") as file:
        export(model, (X,), file)
    close(run(tmp_path / "m.onnx", x=X)[0], model(X))


def test_f_is_none(model: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    close(export(model, (X,))(X)[0], model(X))
    assert not [*tmp_path.iterdir()]


def test_external_data_false_is_one_file(model: nn.Module, tmp_path: Path) -> None:
    export(model, (X,), tmp_path / "m.onnx", external_data=False)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_export_params_false_leaves_weights_out(model: nn.Module, tmp_path: Path) -> None:
    export(model, (X,), tmp_path / "m.onnx", export_params=False, keep_initializers_as_inputs=True)
    weights = {name: value.detach() for name, value in model.state_dict().items()}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 3000
    close(run(tmp_path / "m.onnx", x=X, **weights)[0], model(X))
    export(model, (X,), tmp_path / "n.onnx", export_params=False)
    held = onnx.load(tmp_path / "n.onnx").graph
    assert [each.name for each in held.input] == ["x"]
    assert not {each.name for each in held.initializer} & weights.keys()


def test_keep_initializers_as_inputs(model: nn.Module, tmp_path: Path) -> None:
    export(model, (X,), tmp_path / "m.onnx", keep_initializers_as_inputs=True)
    close(run(tmp_path / "m.onnx", x=X)[0], model(X))
    other = Net().eval()
    weights = {name: value.detach() for name, value in other.state_dict().items()}
    close(run(tmp_path / "m.onnx", x=X, **weights)[0], other(X))


# The call ------------------------------------------------------------------------------------------------------------


def test_kwargs_and_a_dict_at_the_end_of_args(model: nn.Module) -> None:
    scale = torch.tensor(3.0)
    for program in (export(model, (X,), kwargs={"scale": scale}), export(model, (X, {"scale": scale}))):
        close(program(X, scale=scale)[0], model(X, scale))
        close(program(X, scale)[0], model(X, scale))


def test_names(model: nn.Module) -> None:
    program = export(model, (X,), input_names=["image"], output_names=["logits"])
    graph = program.model_proto.graph
    assert ([each.name for each in graph.input], [each.name for each in graph.output]) == (["image"], ["logits"])


def dims(program: ONNXProgram) -> list[str | int]:
    shape = program.model_proto.graph.input[0].type.tensor_type.shape
    return [dim.dim_param or dim.dim_value for dim in shape.dim]


@pytest.mark.parametrize(
    "wanted",
    [
        {"dynamic_shapes": ({0: "rows"},)},
        {"dynamic_shapes": {"x": {0: Dim("rows")}}},
        {"dynamic_axes": {"x": {0: "rows"}}},
        {"dynamic_axes": {"a": {0: "rows"}, "b": {0: "rows"}}, "input_names": ["a"], "output_names": ["b"]},
    ],
)
def test_dynamic_dimensions(wanted: dict[str, Any], model: nn.Module) -> None:
    program = export(model, (X,), **wanted)
    assert dims(program) == ["rows", 3]
    close(program(torch.cat([X, X, X]))[0], model(torch.cat([X, X, X])))


@pytest.mark.parametrize("wanted", [{"dynamic_axes": {"x": [0]}}, {"dynamic_shapes": ({0: Dim.AUTO},)}])
def test_dynamic_dimensions_without_a_name(wanted: dict[str, Any], model: nn.Module) -> None:
    size, columns = dims(export(model, (X,), **wanted))
    assert isinstance(size, str)
    assert columns == 3


def test_opset_version(model: nn.Module) -> None:
    assert export(model, (X,), opset_version=18).model.opset_imports == {"": 18}
    with pytest.raises(ValueError, match="opset 17 is out of range: fxport writes opsets 18 to 26"):
        export(model, (X,), opset_version=17)


def test_exported_programs_bring_their_example(model: nn.Module, tmp_path: Path) -> None:
    program = export(torch.export.export(model, (X,)), (), tmp_path / "m.onnx", verify=True)
    close(program(X)[0], model(X))


def test_exportable_modules_bring_their_call() -> None:
    class Mine(torch.onnx.ExportableModule):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

        def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
            return (X,), None

        def input_names(self) -> list[str]:
            return ["mine"]

        def output_names(self) -> list[str]:
            return ["more"]

        def dynamic_shapes(self) -> Any:
            return ({0: "n"},)

    program = export(Mine().eval())
    assert (program.model.graph.inputs[0].name, dims(program)) == ("mine", ["n", 3])


# What is told, and what is left beside the model ----------------------------------------------------------------------


class Baked(nn.Module):
    def forward(self, x: Tensor, times: int) -> Tensor:
        return x * times


def wrong_relu(op: Op, x: Any) -> Any:
    """relu(Tensor self) -> Tensor"""
    return op.Abs(x)


WRONG = {torch.ops.aten.relu.default: wrong_relu}


def test_verify_refuses_a_model_that_differs(model: nn.Module, tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    with pytest.raises(ExportError, match="the model is not what PyTorch gives") as caught:
        export(model, (X,), target, verify=True, report=True, artifacts_dir=tmp_path / "art", lowerings=WRONG)
    assert rules.OUTPUT_DRIFT in {finding.rule for finding in caught.value.log.findings}
    assert not target.exists()
    (report,) = (tmp_path / "art").glob("*_verify.md")
    assert "not equal" in report.read_text(encoding="utf-8")


def test_report_profile_and_program_are_written(model: nn.Module, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "art"
    choices: dict[str, Any] = {"report": True, "profile": True, "dump_exported_program": True, "verify": True}
    export(model, (X,), artifacts_dir=folder, **choices)
    found = {path.suffix: path for path in folder.iterdir()}
    assert set(found) == {".md", ".sarif", ".pt2"}
    text = found[".md"].read_text(encoding="utf-8")
    assert found[".md"].name.endswith("_success.md")
    assert all(part in text for part in ("input `x`", "| Gemm |", "| capture |", "equal within", "## fxport"))
    close(torch.export.load(found[".pt2"]).module()(X).detach(), model(X))


def test_a_failed_export_leaves_its_report(tmp_path: Path) -> None:
    class Sparse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to_sparse() @ x.T

    with pytest.raises(ExportError):
        export(Sparse(), (X,), tmp_path / "m.onnx", report=True, artifacts_dir=tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".md", ".sarif"]
    assert "FXP3001" in next(tmp_path.glob("*_export.md")).read_text(encoding="utf-8")


def test_profile_without_a_report_is_printed(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    export(model, (X,), profile=True)
    assert "capture" in capsys.readouterr().out


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    training = nn.Sequential(nn.Linear(3, 2), nn.Dropout())
    with pytest.warns(ExportWarning, match="FXP") as told:
        export(training, (X,))
    assert any("Call `model.eval()` before the export." in str(each.message) for each in told)
    export(training, (X,), verbose=False)
    assert capsys.readouterr() == ("", "")
    export(training, (X,), verbose=True)
    assert "capture" in capsys.readouterr().err


def test_optimize_false_leaves_the_passes_out() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.conv(x))

    model, x = Chain().eval(), torch.randn(1, 2, 5)
    operators = [
        [node.op_type for node in program.model.graph]
        for program in (
            export(model, (x,)),
            export(model, (x,), optimize=False),
            export(model, (x,), do_constant_folding=False),
        )
    ]
    assert operators == [["Conv"], ["Conv", "BatchNormalization"], ["Conv", "BatchNormalization"]]
    late = export(model, (x,), optimize=False)
    late.optimize()
    assert [node.op_type for node in late.model.graph] == ["Conv"]
    close(late(x)[0], model(x))


def test_fxports_own_keywords(model: nn.Module) -> None:
    log = Log()
    program = export(model, (X,), log=log, options=Options(opset=20), lowerings=WRONG)
    assert program.log is log
    assert program.model.opset_imports == {"": 20}
    assert "Abs" in {node.op_type for node in program.model.graph}


def test_an_argument_of_fxport_is_told_by_its_name_here(model: nn.Module) -> None:
    with pytest.raises(TypeError, match=r"no argument 'opset': it is called opset_version here"):
        export(model, (X,), opset=18)  # type: ignore[arg-type]  # the mistake
