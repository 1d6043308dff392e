"""Every row of tests/cases/failures: the rule is reported, at the exact place, and says what to do, not how it came."""

from __future__ import annotations

import contextlib
import sys

import pytest
import torch

from fxport import ExportError, Options, export
from fxport.diagnostics import Log
from fxport.diagnostics.sarif import to_sarif
from fxport.diagnostics.text import advice_of
from tests.cases.failures import CASES, FailureCase
from tests.cases.failures.operators import NoLoweringInBlocks, X

LEAST_MODELS, LEAST_KINDS, LEAST_EXACT = 60, 25, 0.95


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns about what these models do, and the findings say it
def test_failure(case: FailureCase) -> None:
    log, model = Log(), case.model()
    with contextlib.suppress(ExportError):  # some are exported, with findings
        export(model, case.args, case.kwargs, log=log, **case.options)
    found = [finding for finding in log.findings if finding.rule.id == case.rule]
    assert found, f"{case.rule} is missing in {[(f.rule.id, f.message) for f in log.findings]}"
    file, line, start, end = case.place()
    places = [finding.place for finding in found if finding.place is not None]
    assert {(place.path, place.line) for place in places} == {(file, line)}
    if case.exact:
        assert {(place.column, place.end_column) for place in places} == {(start, end)}
    for finding in log.findings:
        assert finding.place is not None, finding
        assert "Traceback" not in finding.message
        assert "\n" not in finding.message
        assert advice_of(finding)
    (run,) = to_sarif(log)["runs"]  # type: ignore[misc]  # JSON
    assert all(result["message"]["text"].count("What to do: ") == 1 for result in run["results"])


def test_the_corpus_is_wide_and_exact(capsys: pytest.CaptureFixture[str]) -> None:
    """The figures: every row above asks for its line, and for its columns unless it says that they are chance."""
    kinds, exact = {case.kind for case in CASES}, sum(case.exact for case in CASES) / len(CASES)
    with capsys.disabled():
        sys.stdout.write(f"{len(CASES)} models of {len(kinds)} kinds: line 100%, line and columns {exact:.1%}\n")
    assert len({case.name for case in CASES}) == len(CASES) >= LEAST_MODELS
    assert len(kinds) >= LEAST_KINDS
    assert exact >= LEAST_EXACT


class Growing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 100:
            x = torch.cat([x, x + 1], 0)
        return x


def test_a_loop_that_changes_sizes_is_told_what_works_in_its_place() -> None:
    with pytest.raises(ExportError) as caught:
        export(Growing(), (torch.ones(2, 3),))
    (finding,) = [each for each in caught.value.log.findings if each.rule.id == "FXP1002"]
    assert advice_of(finding).startswith("Sizes may not change in a loop: write into a buffer of the largest size")
    assert not [fix for fix in finding.fixes if fix.edits]


class Returned(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [row * 2 for row in x]


def test_a_list_of_a_dynamic_number_of_outputs_is_told() -> None:
    with pytest.raises(ExportError, match="forward returns a list whose length sizes or data tell: return one tensor"):
        export(Returned(), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))


def test_equal_layers_are_one_finding() -> None:
    with pytest.raises(ExportError) as caught:
        export(NoLoweringInBlocks(), (X,))
    (finding,) = [f for f in caught.value.log.findings if f.rule.id == "FXP3001"]
    assert finding.count == 2


class DenseAgain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to_sparse().coalesce().to_dense() * 2


def test_what_takes_a_sparse_tensor_is_no_cause_of_its_own() -> None:
    with pytest.raises(ExportError) as caught:
        export(DenseAgain(), (X,))
    (finding,) = caught.value.log.findings
    assert "aten.to_sparse.default" in finding.message


def test_what_takes_the_result_of_a_lowering_for_a_sparse_tensor_is_a_cause() -> None:
    lowerings = {torch.ops.aten.to_sparse.default: lambda op, x, **_: op.Identity(x)}
    with pytest.raises(ExportError) as caught:
        export(DenseAgain(), (X,), options=Options(lowerings=lowerings))
    (finding,) = caught.value.log.findings
    assert "aten.to_dense" in finding.message
