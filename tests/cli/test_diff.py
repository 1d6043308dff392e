"""`fxport diff`: interface, operators and weights of two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from diagnostics import rules
from exporter import export
from exporter.cli import main

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
    assert all(f"{what}: equal" in said for what in ("interface", "operators", "weights"))


def test_another_interface_is_an_error(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net(), opset_version=20)
    other = saved(tmp_path / "b.onnx", net(), dynamic=True, output_names=["logits"])
    assert main(["diff", one, other, "--format", "json", "--sarif", str(tmp_path / "d.sarif")]) == 1
    assert findings(capsys) == {
        "'input input' is not what it was. It was 'float32 [2, 3]'; it is 'float32 [rows, 3]'.": "error",
        "'output output' is not what it was. It was 'float32 [2, 4]'; it is 'absent'.": "error",
        "'output logits' is not what it was. It was 'absent'; it is 'float32 [rows, 4]'.": "error",
        "'opset ai.onnx' is not what it was. It was '20'; it is '23'.": "error",
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
    ((message, level),) = found.items()
    assert (level, "in 12 of 12 values" in message) == ("warning", True)
    assert main(["diff", one, other, "--fail-on", "warning"]) == 1
    said = capsys.readouterr().out
    assert said.count(rules.OPERATORS_CHANGED.id) == 2
    assert "operators: 2 differences\nweights: 1 difference\nnodes: 2 → 3" in said


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


def test_usage(tmp_path: Path, capsys: Output) -> None:
    one = saved(tmp_path / "a.onnx", net())
    (tmp_path / "b.onnx").write_bytes(b"\x00garbage")
    assert main(["diff", one, str(tmp_path / "b.onnx")]) == 2
    assert "is no ONNX model" in capsys.readouterr().err
    assert main(["diff", one, str(tmp_path / "c.onnx")]) == 2
    assert main(["diff", one]) == 2
