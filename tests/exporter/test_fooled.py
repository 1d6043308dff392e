"""Nothing that was not seen to be equal is said to be: models made to fool a validation."""

from __future__ import annotations

import contextlib
import copy
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.checks.in_test import Failed, check
from fxport.exporter.validation.summary import verdict
from fxport.exporter.validation.validated import export_and_validate
from tests.cases import fooled
from tests.cases.fooled import FOOLED, AttributeCounter, Branching, Hidden
from tests.cases.fooled_further import FURTHER

ROWS = {**FOOLED, **FURTHER}
"""59 models; of each it is told right what was seen of it."""


@pytest.mark.parametrize("name", ROWS)
def test_what_is_not_seen_to_be_equal_is_not_called_so(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    path = tmp_path / "model.onnx"
    checked = export_and_validate(row.model().eval(), row.call, path=path, dynamic_shapes=row.shapes, provider="cpu")
    assert checked.validation is not None
    assert dict(checked.validation.doubts) == row.doubts
    assert checked.validation.equal is not bool(row.doubts)
    first, *_ = verdict(checked.validation)
    assert first.startswith("not validated: " if row.doubts else "equal to PyTorch")
    warned = {finding.rule.id for finding in checked.log.findings if finding.level is Level.WARNING}
    assert {*row.doubts.values(), *filter(None, [row.noted])} == warned


def test_the_rules_of_doubts() -> None:
    doubts = (rules.NOT_REPEATABLE, rules.NOTHING_SHOWN, rules.NOT_COMPARABLE)
    assert [rule.id for rule in doubts] == [fooled.REPEATS, fooled.SHOWS, fooled.COMPARES]


def test_a_state_is_named_with_both_values_at_the_line_that_changes_it(tmp_path: Path) -> None:
    checked = export_and_validate(AttributeCounter(), fooled.LARGE, path=tmp_path / "model.onnx", provider="cpu")
    (told,) = (finding for finding in checked.log.findings if finding.rule is rules.NOT_REPEATABLE)
    assert "changed 'calls' from 0 to 1" in told.message
    assert told.place is not None
    assert "self.calls += 1" in Path(told.place.path).read_text().splitlines()[told.place.line - 1]


def test_random_generators_are_where_they_were(tmp_path: Path) -> None:
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1])
    export_and_validate(nn.Dropout(), fooled.LARGE, path=tmp_path / "model.onnx", provider="cpu")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()


def test_a_branch_runs_in_pytorch_after_a_validation(tmp_path: Path) -> None:
    x = torch.randn(3)
    export_and_validate(Branching(), x, path=tmp_path / "model.onnx", provider="cpu")
    torch.testing.assert_close(Branching()(x), torch.sin(x) if x.sum() > 0 else torch.cos(x))


@pytest.mark.parametrize("kind", fooled.TOUCHED)
def test_a_model_is_what_it_was(kind: type[nn.Module], tmp_path: Path) -> None:
    model = kind()
    before = {name: (id(tensor), tensor.dtype, tensor.clone()) for name, tensor in model.named_buffers()}
    plain = {name: copy.copy(value) for name, value in vars(model).items() if not name.startswith("_")}
    outside = (dict(fooled.CALLS), list(fooled.SEEN))
    with contextlib.suppress(ExportError):
        export_and_validate(model, fooled.FOOLED["1e30"].call, path=tmp_path / "model.onnx", provider="cpu")
    assert [*before] == [name for name, _ in model.named_buffers()]
    for name, tensor in model.named_buffers():
        identity, dtype, values = before[name]
        assert (id(tensor), tensor.dtype) == (identity, dtype)
        assert torch.equal(tensor, values)
    assert {name: value for name, value in vars(model).items() if not name.startswith("_")} == plain
    assert outside == (fooled.CALLS, fooled.SEEN)


class Refusing(nn.Module):
    """It does not run where values are; a capture does not see that."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_exporting():
            raise RuntimeError("only for export")
        return torch.sin(x)


def test_what_did_not_run_has_not_passed(tmp_path: Path) -> None:
    checked = export_and_validate(Refusing(), fooled.LARGE, path=tmp_path / "model.onnx", provider="cpu")
    assert [*verdict(checked.validation)] == ["not validated"]
    told = {(finding.rule, finding.level) for finding in checked.log.findings}
    assert told == {(rules.ENVIRONMENT_BAKED, Level.WARNING), (rules.VALIDATION_SKIPPED, Level.WARNING)}
    with pytest.raises(Failed, match="only for export"):
        check(Refusing(), fooled.LARGE, folder=tmp_path, logs=[], at=(__file__, 1), provider="cpu")


def test_a_doubt_fails_a_test_that_asks_for_warnings(tmp_path: Path) -> None:
    logs: list[Log] = []
    check(Hidden(), fooled.FOOLED["1e30"].call, folder=tmp_path, logs=logs, at=(__file__, 1), provider="cpu")
    with pytest.raises(Failed, match="FXP5010"):
        check(
            Hidden(),
            fooled.FOOLED["1e30"].call,
            folder=tmp_path,
            logs=logs,
            at=(__file__, 1),
            provider="cpu",
            fail_on="warning",
        )


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def test_an_example_of_ones_is_told_by_drawn_values(tmp_path: Path) -> None:
    checked = export_and_validate(Doubled(), (torch.ones(2, 3),), path=tmp_path / "model.onnx", provider="cpu")
    assert [sample.label for sample in checked.validation.samples][:2] == ["sample", "drawn"]
    assert checked.validation.equal
    assert not checked.log.findings
