"""Models that decide by a last digit: what PyTorch's own rounding decides is told and left out, a fault is found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fxport import export
from fxport.diagnostics import Log, rules
from fxport.exporter.validation import reference
from fxport.exporter.validation.roundings import RUNS, OtherRoundings
from fxport.ort_runner import validate
from fxport.ort_runner.session import LocalSession
from tests.cases.subtle import Calls

X = torch.linspace(-3, 3, 200_000)


class Coded(nn.Module):
    """Codes of what an inexact function gives."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.round(F.gelu(x) * 64)


class Lengths(nn.Module):
    """Lengths that are compared for equality: kernels sum squares of more than 24 bits apart."""

    def forward(self, x: Tensor, length: Tensor) -> Tensor:
        return torch.linalg.vector_norm(x, dim=-1) == length


class Halves(nn.Module):
    """Codes of the inputs themselves, of which one in a hundred is half of an odd number."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.round(x) + torch.exp(x) * 1e-9


def validated(model: nn.Module, args: tuple[Tensor, ...], path: Path, **lowerings: Any) -> list[str]:
    """The ids of the findings of a validation of a file on one example."""
    program = export(model, args, **lowerings)
    program.save(path)
    log = Log()
    samples = [each.samples() for each in reference.cases(model, args, {}, program, log)]
    validate(path, samples, "cpu", log)
    return [finding.rule.id for finding in log.findings]


def test_codes_at_ties_are_told_and_the_rest_is_compared(tmp_path: Path) -> None:
    n = torch.arange(1.0, 400_001)
    x, length = torch.stack([3 * n, 4 * n], -1), torch.where(n <= 20_000, 5 * n, 0.0)
    found = validated(Lengths(), (x, length), tmp_path / "m.onnx")
    assert found == [rules.TIES_LEFT_OUT.id]


def test_a_step_of_all_codes_is_found(tmp_path: Path) -> None:
    class Off(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.round(F.gelu(x, approximate="tanh") * 64)

    program = export(Off(), (X,))
    program.save(tmp_path / "m.onnx")
    log = Log()
    wanted = export(Coded(), (X,))
    samples = [each.samples() for each in reference.cases(Coded(), (X,), {}, wanted, log)]
    validate(tmp_path / "m.onnx", samples, "cpu", log)
    assert rules.OUTPUT_DRIFT.id in [finding.rule.id for finding in log.findings]


def test_a_fault_at_exact_halves_is_found(tmp_path: Path) -> None:
    """No rounding moves what no inexact operation made."""

    class Away(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sign(x) * torch.floor(x.abs() + 0.5) + torch.exp(x) * 1e-9

    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    x[::100] = torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 4.5, -4.5, 0.5, 2.5, -2.5])
    program = export(Away(), (x,))
    program.save(tmp_path / "m.onnx")
    log = Log()
    samples = [each.samples() for each in reference.cases(Halves(), (x,), {}, export(Halves(), (x,)), log)]
    validate(tmp_path / "m.onnx", samples, "cpu", log)
    assert rules.OUTPUT_DRIFT.id in [finding.rule.id for finding in log.findings]


def test_a_run_with_other_roundings_is_drawn_from_its_seed_and_leaves_exact_results() -> None:
    x = torch.randn(1000)
    results = []
    for seed in (0, 0, 1):
        with OtherRoundings(seed):
            results.append((torch.exp(x), x + 1, x.clone().exp_()))
    one, same, other = results
    assert torch.equal(one[0], same[0])
    assert not torch.equal(one[0], other[0])
    assert not torch.equal(one[2], x.exp())
    assert torch.equal(one[1], x + 1)
    assert torch.allclose(one[0], x.exp(), rtol=4e-7, atol=0)


def test_the_model_and_the_generators_are_left_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    x = torch.randn(8, 4)
    program = export(model, (x,))
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    (case, *_) = reference.cases(model, (x,), {}, program, Log())
    assert case.roundings is not None
    assert all(len(array) == RUNS for array in case.roundings().values())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


def test_infinities_stay_what_they_are() -> None:
    x = torch.tensor([0.0, float("inf"), float("-inf"), float("nan")])
    with OtherRoundings(0):
        assert torch.equal(torch.exp(x)[1:3], torch.tensor([float("inf"), 0.0]))


class Phases(nn.Module):
    """Phases of the spectrum of a real signal, whose lowest and highest frequencies are real."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x).angle()


class Conjugated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -torch.fft.rfft(x).angle()


class Rotated(nn.Module):
    """Phases off by a third of a turn, from -pi to pi."""

    def forward(self, x: Tensor) -> Tensor:
        angle = torch.fft.rfft(x).angle() + 2 * torch.pi / 3
        return torch.where(angle > torch.pi, angle - 2 * torch.pi, angle)


SIGNALS = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


def test_phases_of_real_frequencies_are_compared_as_angles(tmp_path: Path) -> None:
    assert validated(Phases(), (SIGNALS,), tmp_path / "m.onnx") == [rules.TIES_LEFT_OUT.id]


@pytest.mark.parametrize("faulty", [Conjugated, Rotated])
def test_another_phase_is_found(faulty: type[nn.Module], tmp_path: Path) -> None:
    export(faulty(), (SIGNALS,)).save(tmp_path / "m.onnx")
    log = Log()
    wanted = export(Phases(), (SIGNALS,))
    samples = [each.samples() for each in reference.cases(Phases(), (SIGNALS,), {}, wanted, log)]
    validate(tmp_path / "m.onnx", samples, "cpu", log)
    assert rules.OUTPUT_DRIFT.id in [finding.rule.id for finding in log.findings]


def test_frequencies_that_are_real_get_either_sign() -> None:
    spectra = []
    for seed in range(2):
        with OtherRoundings(seed):
            spectra.append(torch.fft.rfft(SIGNALS))
    one, other = (spectrum.imag[:, 0].sign() for spectrum in spectra)
    assert torch.equal(one, -other)
    assert one.all()
    assert torch.allclose(spectra[0], torch.fft.rfft(SIGNALS), rtol=0, atol=4e-6)


def test_distances_of_near_points_are_what_their_squares_leave() -> None:
    points = torch.randn(65, 9, generator=torch.Generator().manual_seed(0))
    distances, moved = torch.cdist(points, points), []
    for seed in range(2):
        with OtherRoundings(seed):
            moved.append(torch.cdist(points, points))
    largest = torch.stack(moved).sub(distances).abs().amax(0)
    assert (largest.diagonal() > 1e-4).all()
    assert (largest.diagonal() < 4e-3).all()
    assert (largest[distances > 1] < 1e-5).all()


class Open(nn.Module):
    """A limit that padding lies on: PyTorch has exactly 1 there, as every kernel has."""

    def __init__(self, *, strict: bool) -> None:
        super().__init__()
        self.strict = strict

    def forward(self, x: Tensor) -> Tensor:
        h = torch.exp(x) * torch.exp(-x) * torch.exp(2 * x)
        return torch.sin(x) + (h > 1 if self.strict else h >= 1).float()


def test_what_every_kernel_has_is_no_tie(tmp_path: Path) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    x[600:620] = 0.0
    right, wrong = Open(strict=False), Open(strict=True)
    case = next(reference.cases(right, (x,), {}, export(right, (x,)), Log())).samples()
    path = export(wrong, (x,)).save(tmp_path / "m.onnx")[0]
    assert not validate(path, [case], "cpu", Log()).passed
    assert validate(export(right, (x,)).save(tmp_path / "r.onnx")[0], [case], "cpu", Log()).passed


@pytest.mark.parametrize("function", [torch.exp, torch.sigmoid, torch.cos, torch.rsqrt, torch.exp2])
def test_onnx_runtime_has_what_every_kernel_has(function: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    """Numbers that are not moved, which is sound only if they are the same everywhere."""
    model, x = Calls(function), torch.tensor([0.0, 1.0]).repeat(50)
    case = next(reference.cases(model, (x,), {}, export(model, (x,)), Log())).samples()
    want = case.outputs["output"]
    with LocalSession(export(model, (x,)).save(tmp_path / "m.onnx")[0], "cpu") as session:
        session.open()
        got = session.run(dict(case.inputs))["output"]
    plain = np.isin(want, (0.5, 1.0, 2.0))
    assert plain.any()
    np.testing.assert_array_equal(got[plain], want[plain])


def test_equal_numbers_are_moved_alike_in_every_second_run() -> None:
    x = torch.full((1000,), 0.3)
    with OtherRoundings(1):
        assert len(torch.exp(x).unique()) == 1
        several = torch.exp(torch.linspace(0.3, 0.4, 1000))
    assert len((several - torch.exp(torch.linspace(0.3, 0.4, 1000))).sign().unique()) == 3
    with OtherRoundings(0):
        assert len(torch.exp(x).unique()) > 1
