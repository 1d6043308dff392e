"""Questions whether there is any data: kept as a cond where both ways fit in one, else taken as some, and told."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log, rules
from fxport.exporter.capture.failures import PRESUMED, PRESUMED_NONE
from tests.exporter.test_capture import line_of
from tests.running import assert_same, run_exported, run_session, session_of

SOME = torch.tensor([[1.0, -1], [2, 3], [-1, 4]])
NONE = -SOME.abs()
SHAPES = {"x": {0: "n"}}


class Kept(nn.Module):
    """Returns early where nothing is left; the other way reads the size, and a maximum that nothing has none of."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x[x[:, 0] > 0]
        count = len(rows)
        if count == 0:
            return torch.full((1, 2), 7.0)
        return rows.reshape(count, 2) + rows.max() * count


def test_a_cond_may_read_sizes_of_data() -> None:
    cases = [(SOME,), (NONE,), (torch.cat([SOME, SOME]),)]
    log = Log()
    for case, result in zip(cases, run_exported(Kept(), cases, dynamic_shapes=SHAPES, log=log), strict=True):
        assert_same(result, (Kept()(*case),))
    assert all(finding.level is Level.NOTE for finding in log.findings)


class Ranks(nn.Module):
    """The ways give tensors of different rank, as decoders of boxes do."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x[x[:, 0] > 0].repeat(1, 4)
        count = 0
        for part in (rows,):
            count += part.shape[0]
        if count > 0:  # asks
            rows = rows.reshape(count, -1, 4)
        return rows * 2


class Skipped(nn.Module):
    """A turn of a loop that is left where nothing is there."""

    def forward(self, x: Tensor) -> Tensor:
        found = []
        for column in range(2):
            rows = x[x[:, column] > 0]
            if not rows.shape[0]:  # asks
                continue
            found.append(rows.sum(0))
        return torch.stack(found)


def test_a_turn_is_left_where_nothing_is_there() -> None:
    log, model = Log(), Skipped()
    program = export(model, (SOME,), dynamic_shapes=SHAPES, log=log)
    assert not [finding for finding in log.findings if finding.level is Level.WARNING]
    session = session_of(program)
    for column in (0, 1):
        x = SOME.clone()
        x[:, column] = -1
        assert_same(run_session(session, program, (x,)), (model(x),))


def test_else_the_way_for_some_is_taken() -> None:
    log, model = Log(), Ranks()
    program = export(model, (SOME,), dynamic_shapes=SHAPES, log=log)
    (told,) = (finding for finding in log.findings if finding.level is Level.WARNING)
    assert told.rule is rules.DATA_DEPENDENT_CONTROL_FLOW
    assert PRESUMED in told.message
    assert "with 2 and with 3 axes" in str(told.facts["error"])  # what kept both ways from the graph
    assert told.place is not None
    assert told.place.line == line_of(type(model).forward, "# asks")
    session = session_of(program)
    for x in (SOME, torch.cat([SOME, NONE, SOME])):
        assert_same(run_session(session, program, (x,)), (model(x),))


class Many(nn.Module):
    """Asks for more than whether there is any."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x[x[:, 0] > 0]
        if rows.shape[0] > 2:  # asks
            return rows.sum()
        return rows.sum(0)


class Masked(nn.Module):
    """A mask of no effect becomes None, as in models of fairseq."""

    def forward(self, x: Tensor) -> Tensor:
        padding = self.mask(x)
        return x * 2 if padding is None else (x * 2).masked_fill(padding, 0.0)

    def mask(self, x: Tensor) -> Tensor | None:
        padding = x.eq(0)
        if not padding.any():  # asks
            padding = None
        return padding


class Seen(nn.Module):
    """The same of a mask that says what is seen, and a way that returns."""

    def forward(self, x: Tensor) -> Tensor:
        seen = self.mask(x > 0)
        return x if seen is None else x.where(seen, x.new_zeros(()) + x * 0)

    def mask(self, seen: Tensor) -> Tensor | None:
        if torch.all(seen):  # asks
            return None
        return seen


@pytest.mark.parametrize("model", [Masked(), Seen()], ids=lambda each: type(each).__name__)
def test_a_mask_has_some_effect(model: Masked | Seen) -> None:
    log = Log()
    program = export(model, (SOME.abs(),), dynamic_shapes=SHAPES, log=log)
    (told,) = (finding for finding in log.findings if finding.level is Level.WARNING)
    assert told.rule is rules.DATA_DEPENDENT_CONTROL_FLOW
    assert "a tensor and None" in str(told.facts["error"])
    assert told.place is not None
    assert told.place.line == line_of(type(model).mask, "# asks")
    session = session_of(program)
    for x in (SOME.abs(), SOME.relu(), SOME.relu().repeat(2, 1)):
        assert_same(run_session(session, program, (x,)), (model(x),))


class Other(nn.Module):
    """A sum tells no more than itself."""

    def forward(self, x: Tensor) -> Tensor:
        padding = x.eq(0)
        if padding.sum() == 0:  # asks
            padding = None
        return x if padding is None else x.masked_fill(padding, 0.0)


def test_other_questions_are_refused() -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Many(), (SOME,), dynamic_shapes=SHAPES, log=log)
    (told,) = (finding for finding in log.findings if finding.level is Level.ERROR)
    assert told.rule is rules.DATA_DEPENDENT_CONTROL_FLOW
    assert told.place is not None
    assert told.place.line == line_of(Many.forward, "# asks")


def test_nothing_is_presumed_where_branches_are_told_apart() -> None:
    cases = [(torch.cat([SOME, SOME * 0]),), (SOME,), (SOME * 0,)]
    log = Log()
    for case, result in zip(cases, run_exported(Other(), cases, dynamic_shapes=SHAPES, log=log), strict=True):
        assert_same(result, (Other()(*case),))
    assert all(finding.level is Level.NOTE for finding in log.findings)


class FewSelected(nn.Module):
    """Of the elements that data select, one is not enough."""

    def forward(self, x: Tensor) -> Tensor:
        selected = [each for each in x if each < 50]
        if len(selected) < 2:
            return x[0]
        return torch.stack(selected).sum()


def test_of_elements_that_data_select_the_number_decides_in_the_graph() -> None:
    cases = [
        (torch.tensor([1.0, 55.0, 61.0, 100.0]),),
        (torch.tensor([1.0, 5.0, 61.0, 7.0]),),
        (torch.full((4,), 60.0),),
    ]
    for case, result in zip(cases, run_exported(FewSelected(), cases), strict=True):
        assert_same(result, (FewSelected()(*case),))


class Chosen(nn.Module):
    """Asks once whether a mask has an effect, and branches on the number; the sides have tensors of several shapes."""

    def forward(self, x: Tensor) -> Tensor:
        marked = x > 3
        has_marked = marked.flatten().any().item()  # asks
        scores = x
        if has_marked:
            most = marked.long().sum(1).max()
            rows = marked.nonzero(as_tuple=True)
            scores = torch.cat([x.new_zeros(len(x), most), x], 1)
        weights = scores.softmax(1)
        if has_marked:
            weights = weights.narrow(1, 0, most)
            weights[rows[0], 0] = 0
            return weights.sum(1)
        return weights[:, 0]


@pytest.mark.parametrize(("example", "side"), [(SOME, PRESUMED), (SOME * 0.5, PRESUMED_NONE)])
def test_a_number_of_a_mask_is_that_of_the_example(example: Tensor, side: str) -> None:
    log = Log()
    program = export(Chosen(), (example,), dynamic_shapes=SHAPES, log=log)
    (told,) = (finding for finding in log.findings if finding.level is Level.WARNING)
    assert side in told.message
    assert told.place is not None
    assert told.place.line == line_of(Chosen.forward, "# asks")
    session = session_of(program)
    for x in (example, torch.cat([example, example + 0.1])):
        assert_same(run_session(session, program, (x,)), (Chosen()(x),))
