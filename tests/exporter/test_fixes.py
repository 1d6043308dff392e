"""Fixes of the corpus: applied to a copy of its file, exported again, without the finding and with the same values."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

from fxport import ExportError, export
from fxport.diagnostics import Applicability, Level, Log, Stop
from fxport.exporter.sources.source import Source, import_file
from fxport.exporter.validation.fixes.search import verified
from fxport.exporter.validation.fixes.trial import Outcome, outcome_of, patched, scaled
from tests.cases.failures import CASES, FailureCase
from tests.cases.failures.fixed import FIXES

BY_NAME = {case.name: case for case in CASES}
KINDS = {BY_NAME[name].kind: name for name in reversed(FIXES)}
LEAST_KINDS = 10
VARIANTS = (-0.01, 0.5, 7.0, -40.0)


def row_of(case: FailureCase) -> FailureCase:
    """The row of the file as it is now, which may be patched."""
    (row,) = [row for row in import_file(Path(case.file)).CASES if row.name == case.name]
    return row


def attempted(case: FailureCase, texts: Mapping[str, str]) -> Outcome:
    rows: list[FailureCase] = []

    def load() -> Source:
        rows.append(row_of(case))
        return Source(case.name, rows[0].model(), rows[0].args, rows[0].kwargs)

    def work(source: Source, log: Log) -> None:
        try:
            export(source.model, source.args or (), source.kwargs, log=log, **rows[0].options)
        except ExportError as error:
            raise Stop(log, "export") from error

    return outcome_of(load, work, texts, ())


@pytest.mark.parametrize(
    "name", [name if name in KINDS.values() else pytest.param(name, marks=pytest.mark.slow) for name in FIXES]
)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns about what these models do, and the findings say it
def test_the_fix_helps(name: str) -> None:
    case = BY_NAME[name]
    before = attempted(case, {})
    assert any(finding.rule.id == case.rule for finding in before.findings)
    result = verified(f"{case.file}:CASES", Level.NOTE, lambda texts: attempted(case, texts))
    texts, found = result.texts, result.found
    told = {each.fix.description: each for each in found if each.finding.rule.id == case.rule}
    assert FIXES[name] in told
    assert told[FIXES[name]].fix.applicability is Applicability.MACHINE
    assert list(texts) == [case.file]
    after = attempted(case, texts)
    assert after.error is None
    assert case.rule not in {finding.rule.id for finding in after.findings}
    assert not [finding for finding in after.findings if finding.level is Level.ERROR]
    for factor in VARIANTS:  # also on the way that the sample does not take
        same(values(case, {}, factor), values(case, texts, factor))


def test_at_least_ten_kinds_are_mended(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"verified fixes for {len(FIXES)} of {len(CASES)} models, {len(KINDS)} kinds\n")
    assert len(KINDS) >= LEAST_KINDS


def values(case: FailureCase, texts: Mapping[str, str], factor: float) -> Sequence[Any] | None:
    """What the model gives in eager PyTorch for inputs times a factor; None where it raises."""
    with patched(texts):
        torch.manual_seed(1)
        row = row_of(case)
        try:
            result = row.model()(*scaled(row.args, factor), **scaled(row.kwargs, factor))
        except (ValueError, AssertionError, RuntimeError, TypeError):
            return None
    if not isinstance(result, (tuple, list, torch.Tensor)):
        result = list(vars(result).values()) if hasattr(result, "__dict__") else list(result)
    return [np.asarray(leaf.detach()) for leaf in pytree.tree_leaves(result)]


def same(one: Sequence[Any] | None, other: Sequence[Any] | None) -> None:
    assert (one is None) == (other is None)
    for a, b in zip(one or (), other or (), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
