"""The model suite in other implementations of ONNX: they agree with PyTorch, but for what they are known to lack."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fxport import Options, export, ort_runner
from fxport.diagnostics import Log
from fxport.exporter.validation import reference
from tests.cases.models import ModelCase
from tests.cases.witnesses import DIFFERENT
from tests.exporter.test_models import rows
from tests.ort_runner.models import runtimes

MODELS = [row.values for row in rows()]
QUICK = "modules-gru"
"""The row that the usual run has."""

AGREEING = 0.9
"""The least part of the suite that a runtime has to run as PyTorch does."""

FEWER = pytest.mark.xfail(reason="its DFT and five models more: 7 of 52 rows", strict=True)


@pytest.mark.parametrize("runtime", runtimes("reference", "openvino", "web"))
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=name, marks=() if name == QUICK else pytest.mark.slow)
        for name, case in MODELS
        if case.known_gap is None
    ],
)
def test_a_witness_agrees(name: str, case: ModelCase, runtime: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    example, log = case.build(), Log()
    options = Options(allow_specialization=example.constants)
    model, args, kwargs = example.model, example.args, example.kwargs
    program = export(model, args, kwargs, dynamic_shapes=example.dynamic_shapes, options=options, log=log)
    path = tmp_path / "model.onnx"
    program.save(path)
    recorded = reference.cases(model, args, kwargs, program, log)
    samples = [ort_runner.Samples(each.label, each.inputs, each.outputs, each.exact) for each in recorded]
    found = ort_runner.validate(path, samples, "cpu", log, runtime=runtime, time_limit=60)
    said = [f"{finding.rule.id} {finding.message}" for finding in log.findings]
    assert found.passed == ((name, runtime) not in DIFFERENT), "\n".join(said)


@pytest.mark.parametrize("runtime", ["reference", pytest.param("openvino", marks=FEWER), "web"])
def test_most_of_the_suite_is_not_in_the_table(runtime: str) -> None:
    names = {name for name, _ in MODELS}
    known = [name for name, witness in DIFFERENT if witness == runtime]
    assert names.issuperset(known)
    assert len(known) <= (1 - AGREEING) * len(names)
