"""Every row of tests/cases/dimensions: what is said of each dimension, where, and that what is exported is right."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

from fxport import ExportError, OnnxProgram, Options, export, ort_runner
from fxport.diagnostics import Finding, Level, Log
from fxport.exporter.validation import reference
from tests.cases.dimensions import CASES, SPECIALIZED, DimensionCase

ROWS = [pytest.param(case, id=name) for name, case in CASES.items()]


def dimension_findings(log: Log) -> list[Finding]:
    return [finding for finding in log.findings if finding.rule.id.startswith("FXP2")]


def validated(case: DimensionCase, program: OnnxProgram, model: torch.nn.Module, log: Log, folder: Path) -> None:
    """The exported model equals eager PyTorch on the example, and at other sizes as far as eager takes them."""
    path = folder / "model.onnx"
    program.save(path)
    recorded = reference.cases(model, case.args, case.kwargs, program, log)
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    ort_runner.validate(path, samples, provider="cpu", log=log)
    assert not [f"{f.rule.id} {f.message}" for f in log.findings if f.rule.id[3] in "56" and f.level is Level.ERROR]


@pytest.mark.parametrize("case", ROWS)
def test_what_was_asked_for_and_cannot_be(case: DimensionCase, tmp_path: Path) -> None:
    log, model = Log(), case.model()
    lost = any(rule == SPECIALIZED for rule, _, _ in case.said)
    try:
        options = Options(rewrite=case.rewrite)
        program = export(model, case.args, case.kwargs, dynamic_shapes=case.shapes, options=options, log=log)
    except ExportError:
        assert lost, [f.message for f in log.findings]
    else:
        assert not lost
        validated(case, program, model, log, tmp_path)
    findings = [finding for finding in dimension_findings(log) if finding.level is not Level.NOTE]
    lines, start = inspect.getsourcelines(type(model).forward)
    for rule, text, line in case.said:
        found = [finding for finding in findings if finding.rule.id == rule and text in finding.message]
        assert found, [f"{f.rule.id} {f.message}" for f in findings]
        wanted = start + next(i for i, each in enumerate(lines) if line in each)
        assert [(f.place.path, f.place.line) for f in found if f.place] == [
            (inspect.getsourcefile(type(model)), wanted)
        ] * len(found)
    assert bool(findings) == bool(case.said)


@pytest.mark.parametrize("case", ROWS)
def test_what_can_be_dynamic_is(case: DimensionCase, tmp_path: Path) -> None:
    log, model = Log(), case.model()
    program = export(model, case.args, case.kwargs, dynamic_shapes=case.auto, log=log)
    shapes = {str(value.name): value.shape or () for value in program.model.graph.inputs}
    dynamic = {f"{name}.{axis}" for name, shape in shapes.items() for axis, n in enumerate(shape) if type(n) is not int}
    assert dynamic == set(case.kept)
    findings = dimension_findings(log)
    assert all(finding.level is Level.NOTE for finding in findings)
    assert {rule for rule, _, _ in case.said} <= {finding.rule.id for finding in findings}
    validated(case, program, model, log, tmp_path)


class Appended(torch.nn.Module):
    def forward(self, past: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([past, past[-1:]]) * mask


@pytest.mark.parametrize("name", ["past + 1", "1 + past"])
def test_a_sum_by_name_is_no_relation_to_tell(name: str) -> None:
    log, inputs = Log(), (torch.ones(4, 3), torch.ones(5, 3))
    export(Appended(), inputs, dynamic_shapes=({0: "past"}, {0: name}), log=log)
    assert not dimension_findings(log)


class Average(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(0)


@pytest.mark.parametrize(("dim", "said"), [(Dim.DYNAMIC(min=0), ["at least 1"]), (Dim.DYNAMIC, []), ("n", [])])
def test_the_size_0_is_not_promised(dim: Any, said: list[str]) -> None:
    log = Log()
    export(Average(), (torch.ones(4, 3),), dynamic_shapes=({0: dim},), log=log)
    assert [finding.facts["range"] for finding in dimension_findings(log)] == said
