"""The rows of operators and models, planted faults, placement and latency, on the providers of a GPU.

`pytest tests/gpu` on a machine with one; `--provider cpu` runs the same tests on the CPU, to try the tests themselves.
Each test goes through all of its rows and tells every one that fails.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fxport import ExportError, export, export_and_validate, ort_runner
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.validation import reference
from fxport.ort_runner.providers import PROVIDERS
from tests.called import Called
from tests.cases.faults import FAULTS, MODELS, build
from tests.cases.models import Example
from tests.cases.ops import Draw, OpCase
from tests.cli.test_faults import line_of, outcome_of
from tests.exporter.test_models import rows as model_rows
from tests.exporter.test_ops import rows as op_rows

PART = 20
"""Operators are sampled to one row in so many, except with --slow."""


def failures(examples: Iterator[tuple[str, Callable[[], Example]]], folder: Path, provider: str) -> list[str]:
    """What went wrong, by the name of the example."""
    told: list[str] = []
    for name, made in examples:
        torch.manual_seed(0)
        example, log = made(), Log()
        try:
            program = export(
                example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes, log=log
            )
        except ExportError as error:
            told.append(f"{name}: {error}")
            continue
        path = program.save(folder / "model.onnx")[0]
        cases = reference.cases(example.model, example.args, example.kwargs, program, log)
        samples = [ort_runner.Samples(c.label, c.inputs, c.outputs, c.exact, c.draws) for c in cases]
        ort_runner.validate(path, samples, provider, log)
        told.extend(f"{name}: {f.rule.id} {f.message}" for f in log.findings if f.level is Level.ERROR)
    return told


def operators(*, whole: bool) -> Iterator[tuple[str, Callable[[], Example]]]:
    """Each row with its own values, in its first dtype."""
    for number, (family, case) in enumerate(op_rows()):
        name = f"{family}-{number}-{case.target}"
        if case.known_gap or case.compare != "values" or (zlib.crc32(name.encode()) % PART and not whole):
            continue
        yield name, lambda case=case: called(case)


def called(case: OpCase) -> Example:
    """The call as a model, with inputs that are drawn as for the suite of operators."""
    model = Called(case.target, (case.args, next(case.variants())), case.results)
    generator = torch.Generator().manual_seed(0)
    draws = [leaf for leaf in model.leaves if isinstance(leaf, Draw)]
    return Example(model, tuple(draw.make(case.dtypes[0], generator) for draw in draws))


def test_operators(provider: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    told = failures(operators(whole=bool(request.config.getoption("--slow"))), tmp_path, provider)
    assert not told, "\n".join(told)


def test_models(provider: str, tmp_path: Path) -> None:
    cases = [case for _, case in (row.values for row in model_rows())]
    told = failures(((case.name, case.build) for case in cases if not case.known_gap), tmp_path, provider)
    assert not told, "\n".join(told)


def test_planted_faults(provider: str, tmp_path: Path) -> None:
    """Each is found at its line, though the arithmetic of the device is another."""
    told: list[str] = []
    for fault in FAULTS[::6]:
        outcome = outcome_of(fault, tmp_path, provider)
        found = {line_of(finding.place) for finding in outcome.findings}
        if found != {line_of(outcome.place)}:
            told.append(f"{fault.name}: {found}, not {line_of(outcome.place)}")
    assert not told, "\n".join(told)


@pytest.mark.parametrize("name", MODELS)
def test_placement(provider: str, name: str, tmp_path: Path) -> None:
    """Nothing of a common network is left to the CPU but what is about sizes."""
    example = build(name)
    program = export(example.model, example.args, example.kwargs, dynamic_shapes=example.dynamic_shapes)
    path = program.save(tmp_path / "model.onnx")[0]
    near = (provider, *lower(provider))
    elsewhere = [node for node in ort_runner.placement(path, provider) if node.provider not in near]
    assert not elsewhere, elsewhere


def lower(provider: str) -> tuple[str, ...]:
    """The providers that may take nodes of another one without a copy between devices."""
    return tuple(name for name in PROVIDERS[provider].below if name != "cpu")


def test_a_provider_runs_itself(provider: str, tmp_path: Path) -> None:
    """Outputs stay on the device while a model is timed; a fall-back to the CPU would be a finding."""
    example, log = build("bert"), Log()
    program = export(example.model, example.args, example.kwargs)
    path = program.save(tmp_path / "model.onnx")[0]
    (case, *_) = reference.cases(example.model, example.args, example.kwargs, program, log)
    timed = ort_runner.latency(path, case.inputs, provider, runs=5)
    assert (timed.provider, timed.runs) == (provider, 5)
    assert not [finding for finding in log.findings if finding.rule is rules.PROVIDER_FELL_BACK]


def test_matrix_products_keep_all_digits(provider: str, tmp_path: Path) -> None:
    """TF32, with its 10 bits, would be far outside of the budget of float32 on CUDA."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(256, 256), torch.randn(64, 256)
    program = export(model, (x,))
    path = program.save(tmp_path / "model.onnx")[0]
    (case,) = reference.cases(model, (x,), {}, program, Log())
    done = ort_runner.validate(path, [ort_runner.Samples(case.label, case.inputs, case.outputs, case.exact)], provider)
    assert done.passed
    error: Any = done.samples[0].gaps["output"]
    assert np.isfinite(error.ratio)


class Positions(torch.nn.Module):
    """A table of 16 positions: no longer sequence runs, and a GPU does not raise for one."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table(torch.arange(x.shape[0], device=x.device))


def test_sizes_that_a_model_on_the_device_does_not_take(provider: str, tmp_path: Path) -> None:
    """They are tried, as they may be right; a device-side assert would end the use of the device."""
    device = PROVIDERS[provider].device
    model, x, log = Positions().to(device), torch.randn(5, 4, device=device), Log()
    shapes = {"x": {0: torch.export.Dim("n")}}
    checked = export_and_validate(
        model, (x,), path=tmp_path / "m.onnx", dynamic_shapes=shapes, provider=provider, log=log
    )
    assert checked.validation is not None
    assert checked.validation.passed
    assert not [finding for finding in log.findings if finding.rule is rules.VALIDATION_SKIPPED]
    assert float(torch.ones(3, device=device).sum()) == 3
