"""The result of `fxport.onnx.export`: it runs, is changed, saved, pickled and copied."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import fxport
from fxport import ExportError
from fxport.onnx import ONNXProgram, export
from fxport.onnx.translation import lowerings_of


class Net(nn.Module):
    """A convolution whose weights take in a normalization, a linear layer, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(2, 16, 3), nn.BatchNorm1d(16)
        self.linear = nn.Linear(16, 40)

    def forward(self, x: Tensor, *, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y = self.linear(self.norm(self.conv(x)).mean(-1))
        return (y if scale is None else y * scale), y.argmax(-1)


def net(seed: int) -> Net:
    torch.manual_seed(seed)
    made = Net().eval()
    assert made.norm.running_mean is not None
    made.norm.running_mean.uniform_()
    return made


MODEL, OTHER = net(0), net(1)
X = torch.randn(2, 2, 9)


@pytest.fixture
def program() -> ONNXProgram:
    return export(MODEL, (X,), dynamic_shapes={"x": {0: "batch"}})


def check(program: ONNXProgram, model: nn.Module, x: Tensor = X) -> None:
    for got, want in zip(program(x), model(x), strict=True):
        torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)


def test_it_runs_at_other_sizes(program: ONNXProgram) -> None:
    check(program, MODEL)
    check(program, MODEL, torch.randn(5, 2, 9))
    for got, want in zip(program.call_reference(X), MODEL(X), strict=True):
        torch.testing.assert_close(got, want.detach(), rtol=1e-4, atol=1e-5)


def test_arguments_that_do_not_fit_are_told(program: ONNXProgram) -> None:
    with pytest.raises(TypeError, match="3 positional arguments; the model takes 1"):
        program(X, X, X)
    with pytest.raises(fxport.OtherStructure, match="no argument 'y'"):
        program(X, y=X)
    with pytest.raises(TypeError, match="an argument is a str"):
        program("x")


def test_spread_and_nested_arguments() -> None:
    class Sum(nn.Module):
        def forward(self, *tensors: Tensor) -> Tensor:
            return torch.stack(tensors).sum(0)

    class Nested(nn.Module):
        def forward(self, x: dict[str, Any], pair: tuple[Tensor, Tensor], flag: bool = True) -> Tensor:
            return x["a"] + x["b"][0] + pair[0] * pair[1] if flag else x["a"]

    one, two, three = (torch.full((2,), float(n)) for n in (1, 2, 3))
    assert export(Sum(), (one, two, three))(one, two, two)[0].tolist() == [5.0, 5.0]
    assert export(Sum(), (one,))(two)[0].tolist() == [2.0, 2.0]
    nested: tuple[Any, ...] = ({"a": one, "b": [two]}, (three, three))
    assert export(Nested(), nested)(*nested)[0].tolist() == [12.0, 12.0]


def test_types_that_numpy_lacks_and_complex_ones() -> None:
    class Half(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    x = torch.randn(3).to(torch.bfloat16)
    got = export(Half(), (x,))(x)[0]
    assert got.dtype is torch.bfloat16
    assert torch.equal(got, x * 2)


def test_a_session_of_the_users_own(program: ONNXProgram) -> None:
    given: list[Any] = []

    def initializer(model: str | bytes) -> onnxruntime.InferenceSession:
        given.append(model)
        return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    program.initialize_inference_session(initializer)
    check(program, MODEL)
    check(program, MODEL)
    assert [type(each) for each in given] == [bytes]
    program.release()
    program.release()
    check(program, MODEL)
    assert len(given) == 1


def test_values_inside(program: ONNXProgram) -> None:
    conv = next(node for node in program.model.graph if node.op_type == "Conv").outputs[0].name
    assert conv is not None
    inner, weight, x, last = program.compute_values([conv, "linear.bias", "x", "output.0"], (X,))
    torch.testing.assert_close(inner, MODEL.norm(MODEL.conv(X)).detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(weight, MODEL.linear.bias)
    assert torch.equal(x, X)
    torch.testing.assert_close(last, MODEL(X)[0].detach(), rtol=1e-4, atol=1e-5)
    check(program, MODEL)
    with pytest.raises(ValueError, match="no value 'nothing'"):
        program.compute_values(["nothing"], (X,))


def test_other_weights_reach_what_was_folded(program: ONNXProgram) -> None:
    check(program, MODEL)
    program.apply_weights(OTHER.state_dict())
    check(program, OTHER)
    program.apply_weights({"linear.bias": MODEL.linear.bias})
    got = program(X)[0] - OTHER(X)[0]
    torch.testing.assert_close(got, (MODEL.linear.bias - OTHER.linear.bias).expand(2, -1), rtol=1e-3, atol=1e-4)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(6, 4), nn.Linear(4, 6, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids))


@pytest.mark.parametrize("names", [("embedding",), ("head",), ("embedding", "head"), ("head", "embedding")])
def test_a_tied_weight_is_given_under_any_of_its_names(names: tuple[str, ...]) -> None:
    model, ids = Tied(), torch.tensor([[1, 2], [3, 4]])
    program = export(model, (ids,))
    weights = {f"{name}.weight": torch.randn(6, 4) for name in names}
    program.apply_weights(weights)
    model.load_state_dict(weights, strict=False)
    torch.testing.assert_close(program(ids)[0], model(ids).detach())


def test_weights_that_do_not_fit(program: ONNXProgram) -> None:
    with pytest.warns(UserWarning, match="no weight 'other'"):
        program.apply_weights({"other": X})
    with pytest.raises(ValueError, match=r"'linear.bias' is torch.float32 \[3\]; the model has torch.float32 \[40\]"):
        program.apply_weights({"linear.bias": torch.ones(3)})
    with pytest.raises(ValueError, match=r"torch.float64 \[40\]"):
        program.apply_weights({"linear.bias": torch.ones(40, dtype=torch.float64)})
    program.model.graph.remove(next(iter(program.model.graph)), safe=False)
    with pytest.raises(ValueError, match="the model is not as `export` made it"):
        program.apply_weights(OTHER.state_dict())


def test_axes_are_renamed_everywhere() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.cat([x, x, y])

    sizes = ({0: "n"}, {0: "m"})
    program = export(Twice(), (torch.ones(2, 3), torch.ones(4, 3)), dynamic_shapes=sizes)
    program.rename_axes({"n": "m", "m": "n"})
    x, y = program.model.graph.inputs
    assert (str(x.shape), str(y.shape)) == ("[m,3]", "[n,3]")
    program.rename_axes({ir.SymbolicDim("m"): "left"})
    out = program.model.graph.outputs[0].shape
    assert out is not None
    assert "left" in str(out[0])
    assert "m" not in str(out[0])
    assert sorted(program.program.dim_names.values()) == ["left", "n"]
    assert program(torch.ones(5, 3), torch.ones(1, 3))[0].shape == (11, 3)


@pytest.mark.parametrize(
    ("mapping", "told"),
    [({"rows": "n"}, "no dimension is called 'rows'; the dimensions are: batch"), ({"batch": ""}, "give a string")],
)
def test_axes_that_cannot_be_renamed(mapping: dict[Any, str], told: str, program: ONNXProgram) -> None:
    with pytest.raises(ValueError, match=told):
        program.rename_axes(mapping)


def test_two_axes_do_not_become_one() -> None:
    program = export(nn.Identity(), (torch.ones(2, 3),), dynamic_shapes=({0: "a", 1: "b"},))
    with pytest.raises(ValueError, match="one name means one size"):
        program.rename_axes({"a": "b"})


# Copies ---------------------------------------------------------------------------------------------------------------


def test_it_pickles(program: ONNXProgram) -> None:
    check(program, MODEL)  # with a session open
    other = pickle.loads(pickle.dumps(program))
    check(other, MODEL)
    assert [finding.rule for finding in other.log.findings] == [finding.rule for finding in program.log.findings]
    assert other.log.stages == program.log.stages
    assert other.program.dim_names == program.program.dim_names
    assert other.exported_program is not None
    torch.testing.assert_close(other.exported_program.module()(X)[0], MODEL(X)[0])
    with pytest.raises(AttributeError, match="export the module again"):
        _ = other.program.graph_module.graph
    with pytest.raises(ValueError, match="the model is not as `export` made it"):
        other.apply_weights(OTHER.state_dict())


def test_a_deep_copy_has_weights_of_its_own(program: ONNXProgram) -> None:
    model = net(2)
    other = export(model, (X,))
    made = copy.deepcopy(other)
    assert made.exported_program is not None
    with torch.no_grad():
        model.linear.bias.add_(1)
    check(made, net(2))
    torch.testing.assert_close(made.exported_program.module()(X)[0], net(2)(X)[0])
    made.apply_weights(OTHER.state_dict())
    check(made, OTHER)
    check(copy.copy(program), MODEL)


def test_inputs_with_names_of_builtins_stay_in_the_exported_program() -> None:
    made = copy.deepcopy(export(nn.Linear(3, 2), (torch.ones(1, 3),)))
    assert made.exported_program is not None
    file = io.BytesIO()
    torch.export.save(made.exported_program, file)


def test_errors_pickle() -> None:
    class Sparse(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.to_sparse() @ x.T

    with pytest.raises(ExportError) as caught:
        export(Sparse(), (torch.ones(2, 2),))
    other = pickle.loads(pickle.dumps(caught.value))
    assert str(other) == str(caught.value)
    assert [finding.message for finding in other.log.findings] == [each.message for each in caught.value.log.findings]


# Saving ---------------------------------------------------------------------------------------------------------------


def test_external_data_of_a_small_model(program: ONNXProgram, tmp_path: Path) -> None:
    written = program.save(tmp_path / "m.onnx", external_data=True)
    assert len(written) == 2
    assert all(path.exists() for path in written)
    tiny = export(nn.Linear(3, 2), (torch.ones(1, 3),)).save(tmp_path / "tiny.onnx", external_data=True)
    assert [path.exists() for path in tiny] == [True, True]
    session = onnxruntime.InferenceSession(str(tiny[0]), providers=["CPUExecutionProvider"])
    assert session.run(None, {"input": torch.ones(1, 3).numpy()})[0].shape == (1, 2)


def test_what_cannot_be_saved(program: ONNXProgram, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="external_data is True, but a file object has no folder"):
        program.save(io.BytesIO(), external_data=True)
    with pytest.raises(TypeError, match="open it with mode 'wb'"):
        program.save(io.StringIO())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="destination is of type int"):
        program.save(3)  # type: ignore[arg-type]


def test_a_renamed_axis_and_other_weights_are_in_open_weights(program: ONNXProgram) -> None:
    program.rename_axes({"batch": "n"})
    program.apply_weights(OTHER.state_dict())
    file = io.BytesIO()
    program.save(file, keep_initializers_as_inputs=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["n", 2, 9]
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": X.numpy()})[0]), OTHER(X)[0].detach())
    weights = {name: value.numpy() for name, value in MODEL.state_dict().items() if "num_batches" not in name}
    (got, _) = session.run(None, {"x": X.numpy(), **weights})
    torch.testing.assert_close(torch.from_numpy(got), MODEL(X)[0].detach(), rtol=1e-4, atol=1e-5)


def test_state_keeps_its_place() -> None:
    class Counter(nn.Module):
        count: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x + self.count

    program = export(Counter(), (torch.ones(2),), verbose=False)
    value, count = program(torch.ones(2))
    assert (value.tolist(), count.tolist()) == ([2.0, 2.0], [1.0])


# Functions of ONNX Script ---------------------------------------------------------------------------------------------


class Scripted:
    """What fxport asks of a function of ONNX Script."""

    def __init__(self, text: str) -> None:
        self._proto = onnx.parser.parse_function(text)

    def to_function_proto(self) -> onnx.FunctionProto:
        return self._proto


HEAD = '<domain: "this", opset_import: ["" : 18]>\n'


def test_a_scripted_function_is_written_by_the_builder() -> None:
    text = HEAD + "leaky <slope: float = 0.5> (x) => (y) { half = Constant <value_float = 2.0> ()\n"
    text += "a = LeakyRelu <alpha: float = @slope> (x)\n b = Mul(a, half)\n y = Div(b, half) }"
    table = {torch.ops.aten.leaky_relu.default: Scripted(text)}
    model, x = nn.LeakyReLU(0.25), torch.tensor([-2.0, 3.0])
    program = export(model, (x,), custom_translation_table=table, verify=True)
    assert [node.op_type for node in program.model.graph] == ["LeakyRelu", "Mul", "Div"]
    assert program(x)[0].tolist() == [-0.5, 3.0]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("c = Constant <value_int = 1> ()\n y = If (c) <then_branch = g () => (z) { z = Neg(x) }>", "control flow"),
        ("y = this.other (x)", "calls 'other' of 'this'"),
    ],
)
def test_a_scripted_function_that_cannot_be_taken_over(body: str, told: str) -> None:
    text = HEAD.replace('"" : 18', '"" : 18, "this" : 1') + f"f (x) => (y) {{ {body} }}"
    with pytest.raises(TypeError, match=told):
        lowerings_of({torch.ops.aten.relu.default: Scripted(text)})


def test_an_operator_of_another_opset_is_refused() -> None:
    text = HEAD.replace("18", "12") + "f (x) => (y) { s = ReduceSum <axes = [0]> (x)\n y = Mul(x, s) }"
    with pytest.raises(ExportError, match="ReduceSum of opset 12 is not that of opset 23"):
        export(nn.ReLU(), (torch.ones(2),), custom_translation_table={torch.ops.aten.relu.default: Scripted(text)})


def test_a_function_for_nothing_that_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnxscript", raising=False)
    with pytest.raises(TypeError, match="ONNX Script, which is not imported"):
        lowerings_of({torch.ops.aten.relu.default: lambda x: x})
