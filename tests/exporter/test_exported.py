"""ExportedPrograms: dynamic sizes were decided when they were made, and what else is asked is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import fxport.onnx
from fxport import ExportError, Log, Options, export
from fxport.diagnostics import Level, rules

EXAMPLE = (torch.ones(2, 3),)
FIXED = torch.export.export(nn.Linear(3, 4).eval(), EXAMPLE)
VARYING = torch.export.export(nn.Linear(3, 4).eval(), EXAMPLE, dynamic_shapes=({0: Dim("rows")},))


@pytest.mark.parametrize("args", [(), EXAMPLE])
@pytest.mark.parametrize("asked", [({0: "rows"},), {"input": {0: Dim.DYNAMIC}}])
def test_a_constant_that_was_asked_to_vary_is_refused(args: tuple[Any, ...], asked: Any) -> None:
    with pytest.raises(
        ExportError, match=r"(?s)FXP2001.*torch\.export\.export\(model, args, dynamic_shapes="
    ) as caught:
        export(FIXED, args, dynamic_shapes=asked)
    (found,) = caught.value.log.findings
    assert (found.facts["input"], found.facts["value"]) == ("input", 2)


def test_axes_of_torch_onnx_are_the_same() -> None:
    with pytest.raises(ExportError, match="FXP2001"):
        fxport.onnx.export(FIXED, dynamic_axes={"input": {0: "rows"}})


@pytest.mark.parametrize("asked", [None, ({0: "rows"},), {"input": {0: "rows"}}])
def test_what_varies_may_be_asked_for_again(asked: Any) -> None:
    log = Log()
    program = export(VARYING, dynamic_shapes=asked, log=log)
    (entry,) = program.model.graph.inputs
    assert entry.shape is not None
    assert (str(entry.shape[0]) == "rows", entry.shape[1]) == (asked is not None, 3)
    assert not log.findings


def test_a_constant_may_be_accepted() -> None:
    log = Log()
    options = Options(allow_specialization=True)
    program = export(FIXED, dynamic_shapes=({0: "rows"},), options=options, log=log)
    (found,) = log.findings
    assert (found.rule, found.level) == (rules.DIMENSION_SPECIALIZED, Level.WARNING)
    (entry,) = program.model.graph.inputs
    assert entry.shape is not None
    assert entry.shape[0] == 2


def test_a_dimension_that_may_stay_is_a_note() -> None:
    log = Log()
    export(FIXED, dynamic_shapes=({0: Dim.AUTO},), log=log)
    assert {each.level for each in log.findings} <= {Level.NOTE}
