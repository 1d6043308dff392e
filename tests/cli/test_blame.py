"""Planted faults of every kind in models of every kind: each is detected, and the finding stands at its line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fxport import Options
from fxport.diagnostics import Log
from fxport.exporter.sources.source import Source
from fxport.exporter.validation.against_eager import validation_of
from tests.cases.blame_models import MODELS
from tests.cases.blame_rows import FAULTS
from tests.cases.faults import Fault, build
from tests.cli.test_faults import exported, line_of, outcome_of

BY_NAME = {fault.name: fault for fault in FAULTS}
SAMPLE = (
    "perceptron-lost-gelu.default-0",
    "perceptron-lost_in_pass-sin.default-0",
    "perceptron-merged_by_onnx_pass-Gemm-1",
    "picture-fails-pad.default-0",
    "recurrent-lost_by_onnx_pass-Exp-0",
    "fourier-factor-tanh.default-0",
    "words-off_by_one-arange.default-0",
    "groups-lost-elu.default-0",
    "bf16-factor-sigmoid.default-0",
    "sorted-fails-gather.default-0",
    "state-wrong_constant-mul.Tensor-0",
    "loops-merged_in_pass-tanh.default-2",
)
"""One of each way by which a fault is found."""


@pytest.mark.parametrize("name", SAMPLE)
def test_a_fault_is_found_at_its_line(name: str, tmp_path: Path) -> None:
    outcome = outcome_of(BY_NAME[name], tmp_path)
    assert outcome.findings
    assert {line_of(finding.place) for finding in outcome.findings} == {line_of(outcome.place)}
    assert outcome.attribution is None or outcome.attribution.stage == outcome.stage


@pytest.mark.slow
def test_nearly_all_faults_are_found_at_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All detected, 97% at the line and with the stage. Shows the figures, and each fault that is not."""
    told: list[str] = []
    found = [_figures(fault, tmp_path, told) for fault in FAULTS]
    detected, lines, nodes, stages = (sum(each) for each in zip(*found, strict=True))
    told.append(f"{len(FAULTS)} faults: {detected} detected, {lines} lines, {nodes} operations, {stages} stages right")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(told) + "\n")
    assert detected == len(FAULTS) >= 150
    assert len({fault.kind for fault in FAULTS}) >= 40
    assert min(lines, stages) >= 0.97 * len(FAULTS)


def _figures(fault: Fault, folder: Path, told: list[str]) -> tuple[bool, bool, bool, bool]:
    """Detected, at the line, with the operation, with the stage; a model that was refused has no stage to be told."""
    outcome = outcome_of(fault, folder)
    places = [finding.place for finding in outcome.findings]
    line = {line_of(place) for place in places} == {line_of(outcome.place)}
    node = {place and place.node for place in places} == {outcome.place.node}
    stage = outcome.attribution.stage if outcome.attribution else None
    right = stage in (None, outcome.stage)
    if not (line and right):
        at = [(finding.rule.id, line_of(finding.place)) for finding in outcome.findings]
        told.append(f"{fault.name}: '{stage}' at {at}, not '{outcome.stage}' at {line_of(outcome.place)}")
    return bool(places), line, node, bool(places) and right


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_is_sound_is_not_flagged(name: str, tmp_path: Path) -> None:
    for seed in range(3):
        example, log = build(name, seed), Log()
        program = exported(example, Options())
        path = program.save(tmp_path / "model.onnx")[0]
        source = Source(name, example.model, example.args, example.kwargs, example.dynamic_shapes)
        done = validation_of(path, source, program, "cpu", log, isolate=False, options=Options())
        assert done is not None
        assert done.passed, log.findings
