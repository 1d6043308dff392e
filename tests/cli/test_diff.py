"""`fxport diff`: interface, operators, weights and results of two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import onnx.parser
import onnx_ir as ir
import pytest
import torch
from torch import nn

from fxport import export
from fxport.diagnostics import rules
from fxport.exporter.cli import main
from fxport.exporter.validation.differences import difference, digest_of
from tests.hostile import encoded

Output = pytest.CaptureFixture[str]


def saved(path: Path, model: nn.Module, *, dynamic: bool = False, external: bool = False, **options: Any) -> str:
    torch.manual_seed(0)
    shapes = ({0: "rows"},) if dynamic else None
    export(model.eval(), (torch.ones(2, 3),), dynamic_shapes=shapes, **options).save(path, external_data=external)
    return str(path)


def net(*after: nn.Module, by: float = 1.0, width: int = 4) -> nn.Module:
    torch.manual_seed(0)
    first = nn.Linear(3, width)
    with torch.no_grad():
        first.weight.mul_(by)
    return nn.Sequential(first, *after)


def findings(capsys: Output) -> dict[str, str]:
    return {each["message"]: each["level"] for each in json.loads(capsys.readouterr().out)["findings"]}


def test_equal_files(tmp_path: Path, capsys: Output) -> None:
    one, other = saved(tmp_path / "a.onnx", net()), saved(tmp_path / "b.onnx", net(), external=True)
    assert main(["diff", one, other]) == 0
    said = capsys.readouterr().out
    assert all(f"{what}: equal" in said for what in ("interface", "operators", "weights", "results"))
    assert "generated  worst difference 0 in output" in said


def test_another_interface_is_an_error(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net(), opset_version=20)
    other = saved(tmp_path / "b.onnx", net(), dynamic=True, output_names=["logits"])
    assert main(["diff", one, other, "--format", "json", "--sarif", str(tmp_path / "d.sarif")]) == 1
    assert findings(capsys) == {
        "'input input' has changed. It was 'float32 [2, 3]'; it is 'float32 [rows, 3]'.": "error",
        "'output output' has changed. It was 'float32 [2, 4]'; it is 'absent'.": "error",
        "'output logits' has changed. It was 'absent'; it is 'float32 [rows, 4]'.": "error",
        "'opset ai.onnx' has changed. It was '20'; it is '23'.": "error",
    }
    results = json.loads((tmp_path / "d.sarif").read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["FXP7006"] * 4


def test_operators_are_notes_and_weights_are_warnings(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net(nn.ReLU()))
    other = saved(tmp_path / "b.onnx", net(nn.Tanh(), nn.Tanh(), by=2.0))
    assert main(["diff", one, other, "--format", "json"]) == 0
    found = findings(capsys)
    assert found.pop("The number of 'Relu' nodes has changed. It was 1; it is 0.") == "note"
    assert found.pop("The number of 'Tanh' nodes has changed. It was 0; it is 2.") == "note"
    (weights, weights_level), (results, results_level) = found.items()
    assert (weights_level, "in 12 of 12 values" in weights) == ("warning", True)
    assert (results_level, "'output' has changed on the same inputs" in results) == ("warning", True)
    assert main(["diff", one, other, "--fail-on", "warning"]) == 1
    said = capsys.readouterr().out
    assert said.count(rules.OPERATORS_CHANGED.id) == 2
    assert "operators: 2 differences\nweights: 1 difference\nresults: 1 difference\n" in said
    assert "nodes: 2 → 3" in said


class Renamed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = net()

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.head(input)


def test_a_weight_of_another_name_is_no_change_and_one_of_another_shape_is(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net())
    assert main(["diff", one, saved(tmp_path / "b.onnx", Renamed())]) == 0
    assert "weights: equal" in capsys.readouterr().out
    wide = saved(tmp_path / "c.onnx", net(width=5))
    assert main(["diff", one, wide]) == 1
    assert "FXP7009" in capsys.readouterr().out


def test_results_on_given_inputs(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", nn.LeakyReLU(0.1), dynamic=True)
    other = saved(tmp_path / "b.onnx", nn.ReLU(), dynamic=True)
    numpy.savez(tmp_path / "above.npz", input=numpy.ones((2, 3), numpy.float32))
    torch.save({"input": torch.tensor([[1.0, -2.0, 1.0]])}, tmp_path / "below.pt")
    above, below = (["--inputs", str(tmp_path / name)] for name in ("above.npz", "below.pt"))
    log = tmp_path / "d.sarif"
    assert main(["diff", one, other, *above, "--fail-on", "warning"]) == 0
    assert main(["diff", one, other, *above, *below, "--fail-on", "warning", "--sarif", str(log)]) == 1
    results = json.loads(log.read_text())["runs"][0]["results"]
    (found,) = [each["message"]["text"] for each in results if each["ruleId"] == rules.NUMERICS_CHANGED.id]
    assert "Difference: 0.2 at [0, 1], 1.34e+07 ulp" in found
    assert f"Seen with the inputs '{tmp_path / 'below.pt'}'" in found
    capsys.readouterr()
    assert main(["diff", one, other, "--no-run"]) == 0
    assert "results:" not in capsys.readouterr().out


NEEDS_MORE = """<ir_version: 10, opset_import: ["" : 20]>
agraph (float[2, 3] x, int64[1] index) => (float[1, 3] output) {
    five = Constant<value = int64[1] {5}>() wide = Add(index, five) output = Gather<axis = 0>(x, wide)
}
"""

FAILS = """<ir_version: 10, opset_import: ["" : 20]>
agraph (float[2, 3] x) => (float[1, 3] output) {
    five = Constant<value = int64[1] {5}>() output = Gather<axis = 0>(x, five)
}
"""


class Outputs(nn.Module):
    """The same name, another kind of result."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kinds = {"plain": x, "long": x.repeat(2, 1), "whole": x.round().to(torch.int64), "log": torch.log(x)}
        return kinds[self.kind] if self.kind != "noise" else x + torch.rand_like(x)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("long", "its shape was [2, 3], it is [4, 3]"),
        ("whole", "its type was float32, it is int64"),
        ("log", "elements are NaN or infinite otherwise than they were"),
    ],
)
def test_results_of_another_kind(tmp_path: Path, capsys: Output, kind: str, told: str) -> None:
    one, other = saved(tmp_path / "a.onnx", Outputs("plain")), saved(tmp_path / "b.onnx", Outputs(kind))
    assert main(["diff", one, other, "--fail-on", "warning"]) == 1
    assert told in capsys.readouterr().out


def test_random_results_are_not_judged(tmp_path: Path, capsys: Output) -> None:
    one, other = (saved(tmp_path / name, Outputs("noise")) for name in ("a.onnx", "b.onnx"))
    assert main(["diff", one, other, "--fail-on", "warning"]) == 0
    assert "generated  nothing compared" in capsys.readouterr().out


def test_files_that_do_not_run(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", Outputs("plain"))
    numpy.savez(tmp_path / "bad.npz", x=numpy.ones((2, 5), numpy.float32))
    assert main(["diff", one, one, "--inputs", str(tmp_path / "bad.npz")]) == 2
    assert "does not run on --inputs" in capsys.readouterr().err
    other = tmp_path / "b.onnx"
    onnx.save(onnx.parser.parse_model(FAILS), other)
    assert main(["diff", one, str(other)]) == 1  # for the interface
    assert "the model fails now" in capsys.readouterr().out
    assert main(["diff", str(other), one]) == 1
    assert "does not run on generated inputs" in capsys.readouterr().out
    onnx.save(onnx.parser.parse_model(NEEDS_MORE), other)
    assert main(["diff", one, str(other)]) == 1
    said = capsys.readouterr().out
    assert "results: not compared, since the inputs are others" in said
    assert "FXP7016" not in said
    assert main(["diff", str(other), one]) == 1
    assert "results: not compared" in capsys.readouterr().out


def test_usage(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net())
    (tmp_path / "b.onnx").write_bytes(b"\x00garbage")
    assert main(["diff", one, str(tmp_path / "b.onnx")]) == 2
    assert "is no ONNX model" in capsys.readouterr().err
    assert main(["diff", one, str(tmp_path / "c.onnx")]) == 2
    assert main(["diff", one]) == 2


def test_a_new_name_of_an_input_is_one_finding(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net(), dynamic=True)
    other = saved(tmp_path / "b.onnx", net(), dynamic=True, input_names=["features"])
    assert main(["diff", one, other, "--format", "json", "--no-run"]) == 1
    assert findings(capsys) == {
        "'name of input input' has changed. It was 'input'; it is 'features'.": "error",
    }


class Shaped(nn.Module):
    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(self.shape)


def test_the_shape_of_a_reshape_is_no_weight(tmp_path: Path, capsys: Output) -> None:
    one, other = (saved(tmp_path / f"{shape[0]}.onnx", Shaped(*shape)) for shape in ((3, 2), (6, 1)))
    main(["diff", one, other, "--format", "json", "--no-run"])
    told = findings(capsys)
    assert [level for message, level in told.items() if "Weight" in message] == ["note"]
    assert any("It is a constant of the graph, [3, 2] before and [6, 1] now" in message for message in told)


def test_unrelated_models_are_one_finding(tmp_path: Path, capsys: Output) -> None:
    one, other = saved(tmp_path / "a.onnx", net()), tmp_path / "b.onnx"
    export(nn.Linear(5, 7), (torch.zeros(4, 5),)).save(other)  # has an 'output' too, of another form
    assert main(["diff", one, str(other)]) == 1
    said = capsys.readouterr().out
    assert "unrelated: no input or output of one name and form and no weight is in both files" in said
    assert said.count("error[") == 1


def with_weight(path: Path, weight: numpy.ndarray[Any, Any]) -> str:
    """Save a model that gives one weight."""
    held = onnx.numpy_helper.from_array(weight, "w")
    result = onnx.helper.make_tensor_value_info("y", held.data_type, weight.shape)
    node = onnx.helper.make_node("Identity", ["w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", [], [result], [held])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), path)
    return str(path)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (numpy.array(["a", "bc"], object), numpy.array(["a", "b"], object), "1 of 2 texts differ"),
        (numpy.array([1 + 2j, 3], "complex64"), numpy.array([1 + 2j, 4j], "complex64"), "The largest difference is 5"),
        (numpy.array(["a", "bc"], object), numpy.array(["a", "bc"], object), None),
    ],
)
def test_weights_of_texts_and_of_complex_numbers(
    old: Any, new: Any, told: str | None, tmp_path: Path, capsys: Output
) -> None:
    files = with_weight(tmp_path / "a.onnx", old), with_weight(tmp_path / "b.onnx", new)
    assert main(["diff", *files]) in (0, 1)
    said = capsys.readouterr()
    assert (told in said.out) if told else ("weights: equal" in said.out)
    assert "Traceback" not in said.err


def test_texts_of_a_model_that_was_built_are_those_of_a_file() -> None:
    built = ir.Value(name="w", const_value=ir.StringTensor(["a", "ü"], shape=ir.Shape([2])))  # type: ignore[arg-type]
    read = ir.Value(name="w", const_value=ir.StringTensor([b"a", "ü".encode()], shape=ir.Shape([2])))
    other = ir.Value(name="w", const_value=ir.StringTensor([b"a", b"b"], shape=ir.Shape([2])))
    assert difference(built, read) == ""
    assert digest_of(built) == digest_of(read)
    assert difference(built, other) == "1 of 2 texts differ"
    assert digest_of(built) != digest_of(other)


@pytest.mark.parametrize("where", encoded.WHERE)
def test_a_name_that_is_not_utf8_is_told(where: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "bad.onnx").write_bytes(encoded.with_name(where))
    assert main(["diff", saved(tmp_path / "a.onnx", net()), str(tmp_path / "bad.onnx")]) == 2
    assert "is no ONNX model" in capsys.readouterr().err
