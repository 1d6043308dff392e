"""Who answers what a capture asks about sizes: the table's order, and what each of its rows leaves to the next."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

import pytest
import sympy
import torch
from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from fxport import ExportError, export, fx_passes
from fxport.diagnostics import Log, rules
from fxport.exporter.capture.driver import capture
from fxport.exporter.capture.guards import answers, askers
from fxport.exporter.capture.guards.answers import ANSWERS, DEFER, Inquiry, Question, answered
from fxport.exporter.capture.guards.askers import place_of_asker
from fxport.exporter.pipeline.options import Options


def test_the_order() -> None:
    order = ["copied", "number_by_layout", "format_in_general", "several_queries", "known_to_pytorch"]
    order += ["known_to_shapes", "true_of_some", "speculate", "record_unanswered"]
    assert [row.__name__ for row in ANSWERS] == order


def test_one_stand_in() -> None:
    """Nothing else of fxport stands in the place of PyTorch's function, where two would depend on who came first."""
    room = Path(answers.__file__).parents[3]
    replacing = {
        path.name
        for path in room.glob("*/**/*.py")
        if '"evaluate_expr"' in path.read_text() and "tests" not in path.parts
    }
    assert replacing == {"answers.py", "private.py"}  # the latter is the table of what is replaced


def test_passes_do_not_ask() -> None:
    """A function of fx_passes in the place of one of PyTorch's is between it and who asks."""
    made: dict[str, Any] = {}
    exec(compile("def between(ask): return ask()", str(Path(fx_passes.__file__).parent / "any.py"), "exec"), made)
    frame, counted = made["between"](askers._asker)
    assert frame is sys._getframe()
    assert not counted


def row(answer: object, asked: list[str], name: str) -> Callable[[Question, Inquiry], Any]:
    def given(question: Question, inquiry: Inquiry) -> Any:
        asked.append(name)
        question.refusal = GuardOnDataDependentSymNode(sympy.Symbol("u0"), name)
        return answer

    return given


def test_the_first_that_knows_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    rows = (row(DEFER, asked, "first"), row(7, asked, "second"), row(8, asked, "third"))
    monkeypatch.setattr(answers, "ANSWERS", rows)
    with answered(Inquiry()):
        assert ShapeEnv().evaluate_expr(sympy.Symbol("s0")) == 7
    assert asked == ["first", "second"]


def test_who_asked_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch copies what `torch.arange` gives, and loses sight of it, where anybody else still holds it."""

    def noted(question: Question, inquiry: Inquiry) -> int:
        assert place_of_asker() is not None
        return 7

    class Held:
        """Something that a caller of who asks has."""

    def refuse(*_: object) -> None:
        raise GuardOnDataDependentSymNode(sympy.Symbol("u0"), "not known")

    def ask() -> ReferenceType[Held]:
        held = Held()
        assert ShapeEnv().evaluate_expr(sympy.Symbol("u0")) == 7
        return ref(held)

    monkeypatch.setattr(answers, "ANSWERS", (answers.known_to_pytorch, noted))
    monkeypatch.setattr(ShapeEnv, "evaluate_expr", refuse)
    gc.collect()
    gc.disable()
    try:
        with answered(Inquiry()):
            assert ask()() is None
    finally:
        gc.enable()


def test_what_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(answers, "ANSWERS", (row(DEFER, asked, "first"), row(DEFER, asked, "second")))
    with answered(Inquiry()), pytest.raises(GuardOnDataDependentSymNode, match="second"):
        ShapeEnv().evaluate_expr(sympy.Symbol("s0"))


class Asks(nn.Module):
    """Each question is another row's: a size that is dynamic, whether there is any data, and no question at all."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = x[x[:, 0] > 0].repeat(1, 4)
        if x.shape[0] > 2:
            x = x * 2
        count = 0
        for part in (rows,):
            count += part.shape[0]
        if count > 0:
            rows = rows.reshape(count, -1, 4)
        return rows, x


def test_each_row_has_its_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, set[str]] = {}

    def noting(answer: Callable[[Question, Inquiry], Any]) -> Callable[[Question, Inquiry], Any]:
        def run(question: Question, inquiry: Inquiry) -> Any:
            result = answer(question, inquiry)
            if result is not DEFER:
                kinds = {str(symbol)[0] for symbol in question.asked.free_symbols}
                given.setdefault(answer.__name__, set()).update(kinds)
            return result

        return run

    monkeypatch.setattr(answers, "ANSWERS", tuple(map(noting, ANSWERS)))
    log = Log()
    x = torch.tensor([[1.0, -1], [2, 3], [-1, 4]])
    capture(Asks(), (x,), None, {"x": {0: "n"}}, Options(), log)
    assert given["true_of_some"] == {"u"}  # sizes of data only
    assert "s" in given["known_to_pytorch"]
    assert "record_unanswered" not in given


class Halving(nn.Module):
    def halves(self, x: Tensor) -> Iterator[Tensor]:
        while x.abs().amax() > 1:
            x = x / 2
            yield x

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x, *self.halves(x)]).sum(0)


@pytest.mark.parametrize("strategy", ["non-strict", "post-dispatch"])
def test_the_truth_of_a_tensor_is_no_size(strategy: str) -> None:
    """It is a number from 0 on that only data tells, as many sizes are; of those it is presumed that they are not 0."""
    log = Log()
    with pytest.raises(ExportError):
        export(Halving(), torch.full((3,), -1.0), options=Options(strategy=strategy), log=log)
    assert [finding.rule for finding in log.findings] == [rules.DATA_DEPENDENT_CONTROL_FLOW]
