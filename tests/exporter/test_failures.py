"""Every row of tests/cases/failures: the rule is reported, at the line, and never as a traceback."""

from __future__ import annotations

import contextlib
import inspect

import pytest

from diagnostics import Log
from exporter import ExportError, export
from tests.cases.failures import CASES, FailureCase, NoLoweringInBlocks, X


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_failure(case: FailureCase) -> None:
    log, model = Log(), case.model()
    with contextlib.suppress(ExportError):  # some are exported, with findings
        export(model, case.args, case.kwargs, log=log, **case.options)
    found = [finding for finding in log.findings if finding.rule.id == case.rule]
    assert found, f"{case.rule} is missing in {[(f.rule.id, f.message) for f in log.findings]}"
    assert all("Traceback" not in finding.message and "\n" not in finding.message for finding in log.findings)
    if case.line is not None:
        lines, start = inspect.getsourcelines(type(model).forward)
        wanted = start + next(i for i, text in enumerate(lines) if case.line in text)
        places = [(f.place.path, f.place.line) for f in found if f.place is not None]
        assert places == [(inspect.getsourcefile(type(model)), wanted)]


def test_equal_layers_are_one_finding() -> None:
    with pytest.raises(ExportError) as caught:
        export(NoLoweringInBlocks(), (X,))
    (finding,) = [f for f in caught.value.log.findings if f.rule.id == "FXP3001"]
    assert finding.count == 2
