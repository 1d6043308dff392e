"""The way of a node: from the user's line through both graphs to the ONNX model, in dumped files and without them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fxport import ExportError, export
from fxport.diagnostics import Finding, Log, Step, rules
from fxport.exporter.capture import frames
from fxport.exporter.lowering.lower.places import PlaceTable
from fxport.exporter.pipeline.options import Options
from tests.diagnostics.sarif_checks import breaches, strict


class Branching(nn.Module):
    """An op inside of a branch has the same FX name as one outside; a method that forward calls mixes types."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.mixed(self.head(x) + 1.0)
        return torch.cond(y.sum() > 0, lambda y: y + torch.rand_like(y), lambda y: y * 2.0, (y,))

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x > 0).to(torch.int64)


class Unknown(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu().to_sparse() @ x


X = torch.randn(4, 4)


def exported(model: nn.Module, log: Log, dump: Path | None = None) -> None:
    export(model.eval(), (X,), log=log, options=Options(dump=dump))


def found(log: Log, rule_id: str) -> Finding:
    (finding,) = [finding for finding in log.findings if finding.rule.id == rule_id]
    return finding


def line_of(step: Step) -> str:
    return Path(step.place.path).read_text(encoding="utf-8").splitlines()[step.place.line - 1].strip()


def test_steps_point_into_the_dumped_files(tmp_path: Path) -> None:
    log = Log()
    exported(Branching(), log, tmp_path)
    steps = found(log, "FXP4001").steps
    assert [Path(step.place.path).name for step in steps] == [
        "test_ways.py",
        "captured.fx.py",
        "normalized.fx.py",
        "model.onnx.txt",
    ]
    assert line_of(steps[0]) == "return x * (x > 0).to(torch.int64)"
    assert all(line_of(step).startswith("mul: ") for step in steps[1:3])
    assert line_of(steps[3]).startswith('%"mul/Mul"')
    assert steps[1].text == "Captured as 'mul', aten.mul.Tensor."
    assert steps[3].text == "In the ONNX model 'mul/Mul'."


def test_steps_of_a_node_in_a_branch_point_into_the_branch(tmp_path: Path) -> None:
    log = Log()
    exported(Branching(), log, tmp_path)
    steps = found(log, "FXP1008").steps
    assert "Captured as 'true_graph_0.rand_like'" in steps[1].text
    assert [line_of(step).split(":")[0] for step in steps[1:3]] == ["rand_like", "rand_like"]
    text = (tmp_path / "captured.fx.py").read_text(encoding="utf-8").splitlines()
    assert "class true_graph_0" in "".join(text[: steps[1].place.line])
    assert "rand_like/" in line_of(steps[3])


def test_without_a_dump_all_steps_stay_at_the_line() -> None:
    log = Log()
    exported(Branching(), log)
    finding = found(log, "FXP4001")
    assert len(finding.steps) == 3, "what normalization has left alone is no step"
    assert finding.place is not None
    assert {(s.place.path, s.place.line) for s in finding.steps} == {(finding.place.path, finding.place.line)}


def test_the_stack_has_the_method_and_forward() -> None:
    log = Log()
    exported(Branching(), log)
    place = found(log, "FXP4001").place
    assert place is not None
    assert [frame.function for frame in place.stack] == ["mixed", "forward"]


def test_a_failed_run_has_the_steps_that_were_taken(tmp_path: Path) -> None:
    log = Log()
    with pytest.raises(ExportError):
        exported(Unknown(), log, tmp_path)
    steps = found(log, "FXP3001").steps
    assert [Path(step.place.path).name for step in steps] == ["test_ways.py", "captured.fx.py", "normalized.fx.py"]
    assert "torch.ops.aten.to_sparse" in line_of(steps[1])
    assert line_of(steps[2]).startswith(f"{steps[2].place.node}: ")


def test_a_place_read_from_the_model_gets_its_way_and_its_stack() -> None:
    log = Log()
    program = export(Branching().eval(), (X,), log=log)
    (node,) = [node for node in program.model.graph if node.name == "mul/Mul"]
    log.report(rules.KERNEL_MISSING, PlaceTable(program.model).of(node), op="Mul", provider="cpu", error="x")
    finding = found(log, "FXP6002")
    assert [step.text for step in finding.steps][1:] == [
        "Captured as 'mul', aten.mul.Tensor.",
        "In the ONNX model 'mul/Mul'.",
    ]
    assert finding.place is not None
    assert [frame.function for frame in finding.place.stack] == ["mixed", "forward"]


def test_the_log_with_flows_is_valid(tmp_path: Path) -> None:
    from fxport.diagnostics.sarif import as_text, to_sarif

    log = Log()
    exported(Branching(), log, tmp_path)
    document = strict(as_text(to_sarif(log)))
    assert list(breaches(document)) == []
    flows = [result for result in document["runs"][0]["results"] if "codeFlows" in result]
    assert {result["ruleId"] for result in flows} >= {"FXP4001", "FXP1008"}


def test_torch_still_filters_frames_where_we_replace_it() -> None:
    """Private API: a torch without it would lose the lines of methods that forward calls."""
    from torch.fx.proxy import TracerBase

    assert hasattr(TracerBase, "_filter_traceback_frames")
    assert hasattr(TracerBase, "_record_forward_stack_traces_only")
    assert frames.helpers_kept
