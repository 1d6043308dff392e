"""Validation tells which ways of a model's branches no sample took, at their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Level, Log, rules
from fxport.ort_runner import Samples, validate
from tests.exporter.test_capture import line_of


class Ways(nn.Module):
    """Three branches: one within another is not told of."""

    def forward(self, x: Tensor, on: Tensor) -> Tensor:
        if x.sum() > 0:  # both
            x = x * 2
        if x.max() > 100:  # high
            x = x / 100
            if x.min() < 0:
                x = x + 1
        if on:  # given
            x = x - 1
        return x


ON, OFF = torch.tensor(True), torch.tensor(False)
SMALL = torch.arange(1.0, 7.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (((SMALL, ON),), {"# both": "false", "# high": "true", "# given": "false"}),
        (((SMALL, ON), (-SMALL, ON)), {"# high": "true", "# given": "false"}),
        (((SMALL, ON), (-SMALL, OFF), (SMALL + 90, OFF)), {}),
    ],
)
@pytest.mark.parametrize("isolate", [True, False])
def test_ways_that_no_sample_took(
    given: tuple[tuple[Tensor, Tensor], ...], told: dict[str, str], isolate: bool, tmp_path: Path
) -> None:
    program = export(Ways(), given[0])
    program.save(tmp_path / "ways.onnx")
    samples = [
        Samples(f"sample {number}", {"x": x.numpy(), "on": on.numpy()}, {"output": Ways()(x, on).numpy()})
        for number, (x, on) in enumerate(given)
    ]
    log = Log()
    assert validate(tmp_path / "ways.onnx", samples, "cpu", log, isolate=isolate).passed
    found = {each.place.line: each.facts["truth"] for each in log.findings if each.place is not None}
    assert found == {line_of(Ways.forward, text): truth for text, truth in told.items()}
    assert all(each.rule is rules.BRANCH_NOT_TAKEN and each.level is Level.NOTE for each in log.findings)


class Experts(nn.Module):
    """A row of branches: the first asks for the first expert."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(count, count) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        return self.experts[int(x.argmax().item())](x)


@pytest.mark.parametrize(
    ("count", "chosen", "told"),
    [(10, 0, "'experts.5', 'experts.6', 'experts.7' and 2 more"), (2, 1, "'experts.0'")],
)
def test_the_layers_of_a_way_that_no_sample_took_are_named(count: int, chosen: int, told: str, tmp_path: Path) -> None:
    model, x = Experts(count), torch.eye(count)[chosen]
    export(model, (x,)).save(tmp_path / "experts.onnx")
    log = Log()
    validate(
        tmp_path / "experts.onnx", [Samples("x", {"x": x.numpy()}, {"output": model(x).detach().numpy()})], "cpu", log
    )
    first = log.findings[0]
    assert f"Layers that only it uses: {told}." in first.message
