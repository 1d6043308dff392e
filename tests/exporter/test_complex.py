"""Every row of tests/cases/complex.py against eager PyTorch in ONNX Runtime; every op of the pass has a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from fxport import ExportError, export
from fxport.diagnostics import Log
from fxport.exporter.validation.reference import cases
from fxport.fx_passes import trace
from fxport.fx_passes.passes.complex_to_real import ROWS
from tests.cases import complex, complex_linalg
from tests.exporter import test_ops
from tests.running import session_of
from tests.sampling import marks_of, sampled

CASES = (*complex.CASES, *complex_linalg.CASES)

NUMBERS = {torch.ops.aten.sym_size.int}
"""Ops whose result is a number of the graph rather than a tensor: dynamic rows have them."""


def parameters(known: Sequence[Any]) -> Iterator[Any]:
    """One in ten rows in the usual run, and one at least of each function that writes a complex operator."""
    taken = sampled(known, lambda case: f"{case.target}{case.args}{case.vary}", _writers, one_in=10)
    for number, (case, is_taken) in enumerate(zip(known, taken, strict=True)):
        yield pytest.param(case, id=f"{number}-{case.target}", marks=marks_of(is_taken, case.known_gap))


def _writers(case: Any) -> Iterator[str]:
    row = ROWS.get(case.target)
    yield str(case.target) if row is None else f"{row.__module__}.{row.__qualname__}"


@pytest.mark.parametrize("case", list(parameters(CASES)))
def test_complex(case: Any) -> None:
    test_ops.check(case, opsets=())


@pytest.mark.parametrize("case", list(parameters([case for case in CASES if case.dynamic is not None])))
def test_complex_of_dynamic_sizes(case: Any) -> None:
    test_ops.test_op_of_dynamic_sizes(case)


def test_every_op_of_the_pass_has_a_row() -> None:
    missing = ROWS.keys() - {case.target for case in CASES} - NUMBERS
    assert not missing, sorted(map(str, missing))


class Indefinite(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors, _ = torch.linalg.ldl_factor(x)
        return torch.exp(factors) + factors.abs().sum()


def test_an_op_without_a_row_is_reported_once_by_its_name() -> None:
    with pytest.raises(ExportError) as caught:
        export(Indefinite(), (torch.randn(3, 3, dtype=torch.complex64),))
    errors = [finding for finding in caught.value.log.findings if finding.level == "error"]
    assert {finding.rule.id for finding in errors} == {"FXP3001"}
    assert {finding.facts["op"] for finding in errors} == {"aten.linalg_ldl_factor.default"}


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.complex(x, x).prod().abs()


class Padded(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(torch.complex(x, x), (1, 1)).abs()


def _refusal_with_dynamic_rows(model: torch.nn.Module) -> str:
    with pytest.raises(ExportError) as caught:
        export(model, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    (error,) = [finding for finding in caught.value.log.findings if finding.level == "error"]
    return error.fixes[0].description


def test_why_an_op_has_no_form_in_real_numbers_is_told() -> None:
    assert "a product over an axis of unknown size" in _refusal_with_dynamic_rows(Product())


class Factors(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._linalg_det.default(torch.complex(x, x))[1]


def test_a_result_that_the_form_in_real_numbers_does_not_make_is_refused() -> None:
    with pytest.raises(ExportError) as caught:
        export(Factors(), (torch.randn(3, 3),))
    (error,) = [finding for finding in caught.value.log.findings if finding.level == "error"]
    assert error.rule.id == "FXP3001"
    assert "does not make result 1" in error.fixes[0].description


def test_no_size_becomes_a_constant_after_the_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "KERNELS", {})  # PyTorch's own kernel of constant_pad_nd makes sizes constants
    assert "PyTorch makes a dynamic size the constant 3 in it" in _refusal_with_dynamic_rows(Padded())


class Weighted(torch.nn.Module):
    """A complex weight and a complex buffer that the model writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, dtype=torch.complex64))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.sum(0)
        return x * self.weight + self.seen


def test_complex_weights_buffers_inputs_and_outputs() -> None:
    model, inputs = Weighted(), (torch.randn(4, 3, dtype=torch.complex64),)
    program = export(model, inputs, dynamic_shapes=({0: "n"},))
    session = session_of(program)
    recorded = list(cases(model, inputs, None, program, Log()))
    assert [case.label for case in recorded] == ["sample", "resized", "later"]
    for case in recorded:
        found = session.run(list(case.outputs), case.inputs)
        for actual, expected in zip(found, case.outputs.values(), strict=True):
            torch.testing.assert_close(torch.from_numpy(actual), torch.from_numpy(expected))


class Steps(torch.nn.Module):
    """The powers of complex numbers by as many exponents as a dynamic size tells, as state-space layers make them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("poles", torch.polar(torch.tensor([0.9, 0.8, 0.0, 1.0]), torch.arange(4.0)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        exponents = torch.arange(x.shape[0])[:, None]
        return torch.view_as_real(self.poles ** (exponents - 1)) + x.sum()


def test_powers_by_a_dynamic_number_of_exponents() -> None:
    model = Steps()
    session = session_of(export(model, (torch.randn(3, 2),), dynamic_shapes=({0: "n"},)))
    for size in (3, 1, 6):
        x = torch.randn(size, 2)
        (found,) = session.run(None, {"x": x.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(x), equal_nan=True)
