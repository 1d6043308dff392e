"""Every row of tests/cases/soundness: right at every input, or refused at its line. And the model is left as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from fxport import ExportError, OnnxProgram, export
from fxport.diagnostics import Level, Log
from tests.cases.soundness import CASES, Row
from tests.running import assert_same, run_session, session_of, within_conditions

NO_REASON = frozenset({"FXP1023", "FXP9001", "FXP9003"})
"""Rules that say that the model does not run in PyTorch, or that fxport failed: no reason to refuse one that runs."""

BOTH_WAYS = {
    "rows taken before the loop",
    "loop variable after the loop",
    "first turns of their own",
    "lists read while they are filled",
    "parts of different sizes",
    "numbers looked for",
    "lists of numbers from data",
    "functions of math",
    "steps and bounds from data",
    "negative and empty ranges",
    "effects in what a branch calls",
    "short circuit",
    "names bound out of sight",
    "numbers of mixed kinds",
    "knowledge that outlives a write",
    "in place in a branch",
    "y.data = z",
    "functions without a source of their own",
    "super() without arguments",
    "tensors in lists",
    "containers of several names",
    "jumps out of with and finally",
    "arms told apart",
    "merged names that are written to",
    "tensors that data choose",
}
"""Kinds of which one row at least must export, and one must be refused."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.xfail(reason=row.known_gap)] if row.known_gap else []) for row in CASES],
    ids=lambda row: f"{row.kind}: {row.name}",
)
@pytest.mark.filterwarnings("ignore")  # PyTorch warns about what these models do
def test_right_or_refused(row: Row) -> None:
    log, model = Log(), row.build()
    example = copy.deepcopy(row.inputs[0])
    try:
        program = export(model, example, dynamic_shapes=row.dynamic_shapes, log=log)
    except ExportError:
        assert row.refused_at, [(finding.place, finding.message) for finding in log.findings]
        _assert_refused_there(log, row)
    else:
        assert not row.refused_at or row.or_right, "exported, though it has to be refused"
        for case in row.inputs:
            if row.or_right and not within_conditions(program, case):
                continue  # the report says that the model is not for this size
            _assert_equal(program, row, case)
    _assert_unchanged(model, row, log)


def _assert_refused_there(log: Log, row: Row) -> None:
    errors = [finding for finding in log.findings if finding.level is Level.ERROR]
    told = [(finding.rule.id, finding.place, finding.message) for finding in errors]
    assert all(finding.rule.id not in NO_REASON for finding in errors), told
    at = {(finding.place.path, finding.place.line) for finding in errors if finding.place is not None}
    assert at & row.places, f"refused elsewhere: {told}"


def _eager(model: torch.nn.Module, case: tuple[Any, ...]) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Outputs, and buffers behind the call."""
    with torch.no_grad():
        result = model(*copy.deepcopy(case))
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)], dict(model.named_buffers())


def _assert_equal(program: OnnxProgram, row: Row, case: tuple[Any, ...]) -> None:
    outputs, buffers = _eager(row.build(), case)
    names = [str(value.name) for value in program.model.graph.outputs]
    actual = dict(zip(names, run_session(session_of(program), program, copy.deepcopy(case)), strict=True))
    state = {name: actual.pop(name) for name in names if name.endswith(".updated")}
    assert_same(list(actual.values()), outputs)
    for name, value in buffers.items():
        if f"{name}.updated" in state:
            assert_same([state[f"{name}.updated"]], [value])
        else:
            assert torch.equal(value, dict(row.build().named_buffers())[name]), f"{name} is written to, and no output"


def _assert_unchanged(model: torch.nn.Module, row: Row, log: Log) -> None:
    """The exported model computes what a fresh one does, and holds no tensor of the capture."""
    log_of_state = copy.copy(model.__dict__)
    result, _ = _eager(model, row.inputs[-1])
    fresh = row.build()
    expected, _ = _eager(fresh, row.inputs[-1])
    assert all(type(each) is torch.Tensor for each in result), "eager PyTorch returns tensors of the capture"
    assert_same(result, expected)
    assert set(log_of_state) - set(fresh.__dict__) <= {"kept"}, "attributes that were not there before"


def test_kinds_have_rows_both_ways() -> None:
    exported = {row.kind for row in CASES if not row.refused_at}
    refused = {row.kind for row in CASES if row.refused_at and not row.or_right}
    assert exported & refused >= BOTH_WAYS
    assert len({(row.kind, row.name) for row in CASES}) == len(CASES)
