"""What `fxport.onnx.export` and `fxport.export` refuse, each with what to write instead."""

from __future__ import annotations

import inspect
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import fxport
from fxport import FxportError, Log, Op, Options, UsageError
from fxport.exporter.sources.source import Source
from fxport.exporter.validation.request import exported
from fxport.onnx import OperatorExportTypes, TrainingMode, export

X = torch.tensor([[-1.0, 2.0, 3.0], [4.0, -5.0, 6.0]])


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval()


def wrong_relu(op: Op, x: Any) -> Any:
    """relu(Tensor self) -> Tensor"""
    return op.Abs(x)


# Older arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dynamo", "fallback"])
def test_what_has_no_effect_is_told(name: str, model: nn.Module) -> None:
    with pytest.warns(DeprecationWarning, match=name):
        program = export(model, (X,), **{name: name == "fallback"})
    torch.testing.assert_close(program(X)[0], model(X).detach())


def test_training_must_fit_the_model(model: nn.Module) -> None:
    export(model, (X,), training=TrainingMode.PRESERVE)
    export(nn.Linear(3, 2).train(), (X,), training=TrainingMode.TRAINING)
    with pytest.raises(ValueError, match=r"call model\.train\(\) before the export"):
        export(model, (X,), training=TrainingMode.TRAINING)


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ({"operator_export_type": OperatorExportTypes.ONNX_ATEN_FALLBACK}, "custom_ops=True"),
        ({"export_modules_as_functions": True}, "nested_compile_region"),
        ({"export_modules_as_functions": {nn.Linear}}, "nested_compile_region"),
        ({"autograd_inlining": False}, "custom_op"),
        ({"custom_opsets": {"": 3}}, "opset_version"),
        ({"dynamic_axes": {"input": [0]}, "dynamic_shapes": ({0: "n"},)}, "both given"),
        ({"dynamic_axes": {"z": [0]}}, "'z', which is no input"),
        ({"provider": "tpu", "verify": True}, "'tpu' is unknown"),
    ],
)
def test_what_is_refused(given: dict[str, Any], instead: str, model: nn.Module) -> None:
    with pytest.raises(ValueError, match=instead):
        export(model, (X,), **given)


def test_custom_opsets() -> None:
    def mine(op: Op, x: Any) -> Any:
        """relu(Tensor self) -> Tensor"""
        return op.custom("my.domain", "Relu", x)

    table = {torch.ops.aten.relu.default: mine}
    program = export(nn.ReLU(), (X,), custom_translation_table=table, custom_opsets={"my.domain": 7}, verbose=False)
    assert program.model.opset_imports["my.domain"] == 7
    with pytest.warns(UserWarning, match=r"'my\.domain', which the model does not use"):
        export(nn.ReLU(), (X,), custom_opsets={"my.domain": 7})


# Wrong types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"opset_version": "18"}, "opset_version is '18', a str; give an int, such as 18"),
        ({"opset_version": True}, "opset_version is True, a bool"),
        ({"f": 3}, "f is 3, an int; give a path"),
        ({"f": io.StringIO()}, "file of text; open it with mode 'wb'"),
        ({"verbose": 1}, "verbose is 1, an int"),
        ({"dynamo": None}, "dynamo is None"),
        ({"report": "yes"}, "report is 'yes', a str; give True or False"),
        ({"artifacts_dir": None}, "artifacts_dir is None"),
        ({"training": False}, r"training is False, a bool; give a fxport\.onnx\.TrainingMode"),
        ({"operator_export_type": 0}, "operator_export_type is 0, an int"),
        ({"input_names": "x"}, r"input_names is the string 'x'; give a list: \['x'\]"),
        ({"output_names": [1]}, r"output_names\[0\] is 1, an int; give a string"),
        ({"dynamic_axes": ["x"]}, "dynamic_axes is .* give a dict"),
        ({"custom_opsets": [1]}, "custom_opsets is .* give a dict"),
        ({"custom_opsets": {"d": "1"}}, "give versions by domains"),
        ({"custom_translation_table": [1]}, "custom_translation_table is .* give functions by operators"),
        ({"custom_translation_table": {torch.ops.aten.relu.default: 3}}, "is 3, an int; write it for fxport's builder"),
        ({"custom_translation_table": {torch.ops.aten.relu.default: [wrong_relu]}}, "give one function"),
        (
            {"custom_translation_table": {torch.ops.aten.relu: wrong_relu}},
            "a key names an overload, as",
        ),
        ({"kwargs": [1]}, "kwargs is a list"),
        ({"args": X.numpy()}, r"args is a numpy array; give a tensor: torch\.from_numpy"),
        ({"args": ([X.numpy()],)}, r"args\[0\]\[0\] is a numpy array"),
        ({"args": (X,), "kwargs": {"scale": np.float32(1)}}, r"kwargs\['scale'\] is a numpy float32"),
        ({"weights": 3}, "weights is 3, an int; give the path"),
        ({"options": {}}, r"options is \{\}, a dict; give fxport\.Options"),
        ({"log": []}, r"log is \[\], a list"),
        ({"dynamic_shape": None}, "no argument 'dynamic_shape': did you mean 'dynamic_shapes'"),
        ({"custom_ops": True}, r"give options=fxport\.Options\(custom_ops=\.\.\.\)"),
    ],
)
def test_a_wrong_type_is_told_by_name(given: dict[str, Any], told: str, model: nn.Module) -> None:
    args = given.pop("args", (X,)) if "args" in given else (X,)
    with pytest.raises(TypeError, match=told):
        export(model, args, **given)


def test_torchscript_is_refused(model: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, (X,))
    with pytest.raises(TypeError, match=r"give the nn\.Module that it was made from"):
        export(traced, (X,))


# fxport.export, for those who come from torch.onnx --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"f": "m.onnx"}, r"export\(\.\.\.\)\.save\(path\); fxport\.onnx\.export takes the arguments"),
        ({"verbose": True}, r"fxport\.onnx\.export takes the arguments of torch\.onnx\.export"),
        ({"dynamo": True}, r"fxport\.onnx\.export"),
        ({"external_data": True}, r"save\(path, external_data=True\)"),
        ({"custom_translation_table": {}}, "lowerings="),
        ({"verify": True}, "export_and_validate"),
        ({"opset": 18}, "it is called opset_version here"),
        ({"input_name": ["x"]}, "did you mean 'input_names'"),
        ({"rewrite": False}, r"options=fxport\.Options\(rewrite=\.\.\.\)"),
        ({"opset_version": "18"}, "opset_version is '18', a str"),
        ({"lowerings": {"aten.add": 3}}, "a key is an operator of PyTorch; a lowering is a function of the builder"),
        ({"lowerings": {torch.ops.aten.relu.default: 3}}, "is 3, an int; a lowering is a function of the builder"),
        ({"kwargs": "m.onnx"}, r"kwargs is a path; .*fxport\.onnx\.export"),
    ],
)
def test_export_names_what_to_write(given: dict[str, Any], told: str, model: nn.Module) -> None:
    with pytest.raises(TypeError, match=told):
        fxport.export(model, (X,), **given)


def test_on_the_command_line_it_is_a_mistake_in_source(model: nn.Module) -> None:
    source = Source("make", model, (X.numpy(),))
    with pytest.raises(UsageError, match=r"'make': args\[0\] is a numpy array"):
        exported(source, Options(), Log())


def test_dynamic_axes_and_dynamic_shapes_are_one_too_many(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="are both given"):
        fxport.export(model, (X,), dynamic_axes={"x": [0]}, dynamic_shapes=({0: "n"},))


def test_a_keyword_that_forward_lacks_is_named() -> None:
    class Named(nn.Module):
        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            return input_ids * 2

    with pytest.raises(fxport.ExportError, match="unexpected keyword argument 'input_id'; did you mean 'input_ids'"):
        fxport.export(Named(), (), {"input_id": X})
    with pytest.raises(fxport.ExportError, match="unexpected keyword argument 'z'; its arguments are input_ids"):
        fxport.export(Named(), (), {"z": X})


# Errors ---------------------------------------------------------------------------------------------------------------


def test_all_errors_have_one_base() -> None:
    errors = [each for name in fxport.__all__ if inspect.isclass(each := getattr(fxport, name))]
    raised = [each for each in errors if issubclass(each, BaseException)]
    assert len(raised) >= 20
    assert all(issubclass(each, FxportError) for each in raised)
    assert fxport.onnx.OnnxExporterError is FxportError


def test_what_fxport_onnx_lacks_is_told() -> None:
    with pytest.raises(AttributeError, match=r"no 'symbolic_helper'; it has .* import torch\.onnx"):
        _ = fxport.onnx.symbolic_helper


def test_a_place_that_takes_no_file_is_told_before_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxport.onnx.exporting.export_onnx", lambda *_, **__: pytest.fail("it was exported"))
    with pytest.raises(IsADirectoryError, match="name a file in it, such as"):
        export(nn.Identity(), (torch.ones(2),), tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        export(nn.Identity(), (torch.ones(2),), str(tmp_path / "none" / "a.onnx"))
