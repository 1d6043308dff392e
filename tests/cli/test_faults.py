"""Planted faults: each is detected, its stage named, and its place is the line of the node it was planted in."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from unittest import mock

import pytest
import torch

from fxport import ExportError, OnnxProgram, Options, export
from fxport.diagnostics import Finding, Level, Log, Place
from fxport.exporter.lowering.lower.places import PlaceTable
from fxport.exporter.sources.source import Source
from fxport.exporter.validation.against_eager import validation_of
from fxport.exporter.validation.attribution import Attribution
from fxport.fx_passes import pipeline
from fxport.fx_passes.graph import ORIGIN, place_of
from fxport.ort_runner.judging import LOCATABLE
from tests.cases import faults, layer_faults
from tests.cases.faults import MODELS, Fault, InFxPass, InLowering, InOnnxPass, build
from tests.cases.models import Example, calls, modules, transformers

FAULTS = (*faults.FAULTS, *layer_faults.FAULTS)
SAMPLE = tuple(fault for number, fault in enumerate(FAULTS) if number % 6 == 0)
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Outcome:
    """What a validation of a faulty export said, and what it should have."""

    findings: tuple[Finding, ...]
    attribution: Attribution | None
    stage: str
    place: Place


def outcome_of(fault: Fault, folder: Path, provider: str = "cpu") -> Outcome:
    """Plant, export, validate."""
    example, sound = build(fault.model), sound_export(fault.model)
    options, stage, place = planted(fault, sound)
    told: list[Attribution] = []
    log = Log()
    with harmed(fault, sound), suppress(ExportError):  # it is refused: the log says where
        program = export(
            example.model,
            example.args,
            example.kwargs,
            dynamic_shapes=example.dynamic_shapes,
            options=options,
            log=log,
        )
        path = program.save(folder / "model.onnx")[0]
        source = Source("model", example.model, example.args, example.kwargs, example.dynamic_shapes)
        validation_of(path, source, program, provider, log, isolate=False, options=options, told=told.append)
    findings = tuple(finding for finding in log.findings if finding.level is Level.ERROR)
    return Outcome(findings, told[0] if told else None, stage, place)


@lru_cache(maxsize=1)
def sound_export(model: str) -> OnnxProgram:
    """Export a model without a fault, for all its faults that come one after the other."""
    return exported(build(model), Options())


def exported(example: Example, options: Options) -> OnnxProgram:
    return export(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, options=options)


def planted(fault: Fault, sound: OnnxProgram) -> tuple[Options, str, Place]:
    """The options with the fault in them, the stage it is in, and the line of its node."""
    where = fault.where
    if isinstance(where, InOnnxPass):
        nodes = [node for node in sound.model.graph if node.op_type == where.op_type]
        place = PlaceTable(sound.model).of(nodes[where.number])
        assert place is not None
        return Options(ir_passes=(where.ir_pass(),)), "ONNX pass rewrite_badly", place
    nodes = calls_of(where, sound)
    place = place_of(nodes[where.number])
    assert place is not None
    if isinstance(where, InLowering):
        names = [node.name for node in nodes]
        operator = nodes[where.number].meta.get(ORIGIN, where.target)
        return Options(lowerings=where.lowerings(names)), f"lowering of {operator}", place
    return Options(), "pass rewrite_badly", place


def calls_of(where: InLowering | InFxPass, program: OnnxProgram) -> list:  # of torch.fx.Node
    return [node for node in program.program.graph_module.graph.nodes if node.target is where.target]


@contextmanager
def harmed(fault: Fault, sound: OnnxProgram) -> Iterator[None]:
    """While it lasts, the pipeline of FX passes has the broken one at its end, if the fault is one."""
    if not isinstance(fault.where, InFxPass):
        yield
        return
    broken = fault.where.fx_pass([node.name for node in calls_of(fault.where, sound)])
    with mock.patch.object(pipeline, "NORMALIZE", (*pipeline.NORMALIZE, broken)):
        yield


def line_of(place: Place | None) -> tuple[str, int, str | None] | None:
    return (place.path, place.line, place.module) if place else None


@pytest.mark.parametrize("fault", SAMPLE, ids=lambda fault: fault.name)
def test_a_fault_is_found_at_its_line(fault: Fault, tmp_path: Path) -> None:
    outcome = outcome_of(fault, tmp_path)
    assert outcome.findings
    assert outcome.attribution is not None
    assert outcome.attribution.stage == outcome.stage, outcome.attribution
    assert {line_of(finding.place) for finding in outcome.findings} == {line_of(outcome.place)}


@pytest.mark.slow
def test_every_fault_is_detected_and_nearly_all_are_placed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All detected; 95% at the exact line, 95% with the right stage. Shows the figures, and each fault that is not."""
    lines = stages = detected = 0
    told: list[str] = []
    for fault in FAULTS:
        outcome = outcome_of(fault, tmp_path)
        stage = outcome.attribution.stage if outcome.attribution else None
        found = {line_of(finding.place) for finding in outcome.findings}
        right = found == {line_of(outcome.place)}, stage == outcome.stage
        detected, lines, stages = detected + bool(found), lines + right[0], stages + right[1]
        if not all(right):
            told.append(f"{fault.name}: '{stage}' at {found}, not '{outcome.stage}' at {line_of(outcome.place)}")
    kinds = len({fault.kind for fault in FAULTS})
    told.append(f"{len(FAULTS)} faults of {kinds} kinds: {detected} detected, {lines} lines and {stages} stages right")
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(told) + "\n")
    assert detected == len(FAULTS) >= 30
    assert kinds >= 12
    assert min(lines, stages) >= 0.95 * len(FAULTS)


@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_sound_is_not_flagged(name: str, seed: int, tmp_path: Path) -> None:
    example = build(name, seed)
    log = Log()
    program = replace(exported(example, Options()), log=log)
    path = program.save(tmp_path / "model.onnx")[0]
    source = Source(name, example.model, example.args, example.kwargs, example.dynamic_shapes)
    done = validation_of(path, source, program, "cpu", log, isolate=False, options=Options())
    assert done is not None
    assert done.passed
    assert not [finding for finding in log.findings if finding.rule in LOCATABLE]


SOUND = ("lstm", "gru", "unet", "encoder_with_masks")
"""Models of other tables that are tried beside all those of transformers."""


@pytest.mark.slow
def test_none_of_sixty_sound_exports_is_flagged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty models, each with three sets of weights."""
    cases = [case for table in (transformers, modules, calls) for case in table.CASES]
    chosen = [case for case in cases if case in transformers.CASES or case.name in SOUND]
    told, worst = [], 0.0
    for case, seed in itertools.product(chosen, SEEDS):
        torch.manual_seed(seed)
        example, log = case.build(), Log()
        program = replace(exported(example, Options()), log=log)
        path = program.save(tmp_path / "model.onnx")[0]
        source = Source(case.name, example.model, example.args, example.kwargs, example.dynamic_shapes)
        done = validation_of(path, source, program, "cpu", log, isolate=False, options=Options())
        assert done is not None
        told += [f"{case.name}, seed {seed}: {f.message}" for f in log.findings if f.rule in LOCATABLE]
        worst = max(worst, done.worst[2].ratio if done.worst else 0.0)
    with capsys.disabled():
        count = len(chosen) * len(SEEDS)
        sys.stdout.write(
            f"\n{count} sound exports: {len(told)} flagged; the worst output has {worst:.2f} of its budget\n"
        )
    assert len(chosen) == 20
    assert not told, "\n".join(told)
