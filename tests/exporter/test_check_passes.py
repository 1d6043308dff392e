"""Each pass against the model before it: a planted fault is named with its line, and rows change nothing."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

from fxport import Options
from fxport.diagnostics import Log
from fxport.exporter.cli import main
from fxport.exporter.validation.pass_checks import check_passes
from fxport.exporter.validation.stages import Call
from fxport.fx_passes import FxPass, pipeline

aten = torch.ops.aten
X = torch.linspace(-2, 2, 12).reshape(3, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x).clone()
        y = torch.sigmoid(y)
        return torch.relu(y - 0.5) * 2


def checked(options: Options = Options(), model: nn.Module | None = None) -> Any:  # noqa: B008  # frozen
    """The findings of a check, by their facts and lines."""
    log = Log()
    torch.manual_seed(0)
    right = check_passes(Call(model or Net(), (X,), {}, ({0: "n"},)), options, log)
    found = [(each.rule.id, each.facts.get("name"), each.place and each.place.line) for each in log.findings]
    assert right is not any(rule == "FXP5013" for rule, _, _ in found)
    return found


def line_of(text: str) -> int:
    lines, start = inspect.getsourcelines(Net)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_the_passes_of_a_model_change_nothing() -> None:
    assert checked() == []


def test_a_broken_fx_pass_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def soften(gm: GraphModule, _log: Log) -> bool:
        found = [node for node in gm.graph.nodes if node.target is aten.sigmoid.default]
        for node in found:
            node.target = aten.tanh.default
        return bool(found)

    monkeypatch.setattr(pipeline, "NORMALIZE", (*pipeline.NORMALIZE, FxPass("soften", soften)))
    assert checked() == [("FXP5013", "soften", line_of("sigmoid"))]


class ReluOfNothing(ir.passes.InPlacePass):
    """Takes Relu for Abs, which differs below zero alone."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        found = [node for node in model.graph if node.op_type == "Relu"]
        for node in found:
            node.op_type = "Abs"
        return ir.passes.PassResult(model, bool(found))


class DropProducts(ir.passes.InPlacePass):
    """Leaves out a product by 2: wrong for every number but zero."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        node = next(node for node in model.graph if node.op_type == "Mul")
        node.op_type = "Div"
        return ir.passes.PassResult(model, modified=True)


class NanToZero(ir.passes.InPlacePass):
    """Wrong for NaN alone: Max takes the place of what passes it on."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        node = next(node for node in model.graph if node.op_type == "Sigmoid")
        source = node.inputs[0]
        assert source is not None
        same = ir.node("Equal", [source, source])
        zero = ir.node("Sub", [source, source])
        either = ir.node("Where", [same.outputs[0], source, node.outputs[0]])
        assert zero.outputs
        either.outputs[0].type, either.outputs[0].shape = source.type, source.shape
        same.outputs[0].shape, same.outputs[0].type = source.shape, ir.TensorType(ir.DataType.BOOL)
        number = ir.node("Constant", [], attributes={"value_float": 0.0})
        either.replace_input_with(2, number.outputs[0])
        model.graph.insert_before(node, [number, same, either])
        node.replace_input_with(0, either.outputs[0])
        return ir.passes.PassResult(model, modified=True)


@pytest.mark.parametrize(
    ("broken", "line"),
    [(ReluOfNothing(), "relu"), (DropProducts(), "relu"), (NanToZero(), "sigmoid")],
    ids=lambda each: type(each).__name__,
)
def test_a_broken_onnx_pass_is_named_with_its_line(broken: Any, line: str) -> None:
    assert checked(Options(ir_passes=(broken,))) == [("FXP5013", type(broken).__name__, line_of(line))]


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.rand_like(x)


def test_a_model_with_random_operators_is_not_checked() -> None:
    assert [rule for rule, _, _ in checked(model=Random())] == ["FXP5001"]


def rows() -> Iterator[Any]:
    """The models of the rows: three in the usual run, all of them with --slow."""
    for group in ("calls", "modules", "pictures", "research", "transformers"):
        for number, case in enumerate(importlib.import_module(f"tests.cases.models.{group}").CASES):
            if not case.known_gap:
                marks = [] if number == 0 and group != "transformers" else [pytest.mark.slow]
                yield pytest.param(case, id=f"{group}-{case.name}", marks=marks)


@pytest.mark.parametrize("case", list(rows()))
@pytest.mark.filterwarnings("ignore")
def test_no_pass_changes_what_a_model_computes(case: Any) -> None:
    torch.manual_seed(0)
    example = case.build()
    log = Log()
    call = Call(example.model, example.args, example.kwargs, example.dynamic_shapes)
    assert check_passes(call, Options(allow_specialization=example.constants), log), [
        finding.message for finding in log.findings
    ]


def test_the_command_line_checks_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef net():\n    return torch.nn.Linear(4, 3), (torch.ones(1, 4),)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["export", "net.py:net", "--check-passes"]) == 0
    assert "check passes" in capsys.readouterr().out
