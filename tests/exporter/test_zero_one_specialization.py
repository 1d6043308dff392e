"""Examples with sizes of one: what can be dynamic is, and what cannot is told at the line that is to blame."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from fxport import ExportError, Options, export
from fxport.diagnostics import Level, Log
from tests.running import assert_same, run_session, session_of


class Product(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        both = x * y
        return both + 1


class Squeezed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.squeeze(0)
        return y + 1


class Apart(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            return x * 2
        return x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x, x, x, need_weights=False)[0]


class Viewed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(2, 3, 4) * 2


def t(*sizes: int) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Case:
    """`blamed` is a text of the line that makes dimensions constants; `dims` are those of the first input with "auto".

    `other` is a call at other sizes.
    """

    model: Callable[[], nn.Module]
    args: tuple[Tensor, ...]
    other: tuple[Tensor, ...]
    dims: tuple[Any, ...]
    blamed: str = ""
    constant: str = ""


CASES = {
    "a row for all": Case(Product, (t(3, 4), t(1, 4)), (t(5, 6), t(1, 6)), ("x.0", "x.1"), "x * y", "y.0"),
    "two of one": Case(Product, (t(1, 4), t(1, 1)), (t(5, 6), t(5, 1)), ("x.0", "x.1"), "x * y", "y.1"),
    "both of one": Case(Product, (t(1, 4), t(1, 4)), (t(5, 6), t(5, 6)), ("x.0", "x.1")),
    "an axis that vanishes": Case(Squeezed, (t(1, 4),), (t(1, 6),), (1, "x.1"), "squeeze", "x.0"),
    "a branch for one": Case(Apart, (t(1, 4),), (t(1, 6),), (1, "x.1"), "== 1", "x.0"),
    "attention": Case(Attention, (t(1, 5, 8),), (t(3, 7, 8),), ("x.0", "x.1", 8), "self.attend", "x.2"),
    "one size of an axis": Case(Viewed, (t(2, 12),), (t(2, 12),), (2, 12), "view", "x.1"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_can_be_dynamic_is(name: str) -> None:
    case, log = CASES[name], Log()
    model = case.model().eval()
    program = export(model, case.args, dynamic_shapes="auto", log=log)
    shape = program.model.graph.inputs[0].shape or ()
    assert tuple(each if isinstance(each, int) else each.value for each in shape) == case.dims
    for args in (case.args, case.other):
        assert_same(run_session(session_of(program), program, args), [model(*args)])
    lost = [finding for finding in log.findings if finding.rule.id == "FXP2001"]
    assert all(finding.level is Level.NOTE for finding in lost)
    assert all(finding.place and case.blamed in (finding.place.snippet or "") for finding in lost)
    assert case.constant in {finding.facts["dim"] for finding in lost} | {""}


@pytest.mark.parametrize(
    ("model", "args", "shapes", "line"),
    [
        (Product, (t(3, 4), t(1, 4)), ({1: "m"}, {0: "n", 1: "m"}), "x * y"),
        (Squeezed, (t(1, 4),), ({0: "n"},), "squeeze"),
        (Apart, (t(1, 4),), ({0: Dim("n", min=1)},), "== 1"),
    ],
)
def test_what_has_to_be_dynamic_and_cannot(model: Callable[[], nn.Module], args: Any, shapes: Any, line: str) -> None:
    with pytest.raises(ExportError) as raised:
        export(model(), args, dynamic_shapes=shapes, options=Options(rewrite=False))
    (finding,) = (each for each in raised.value.log.findings if each.level is Level.ERROR)
    assert (finding.rule.id, finding.facts["dim"]) == ("FXP2001", "n")
    assert finding.place is not None
    assert line in (finding.place.snippet or "")


def test_an_example_of_one_is_dynamic_with_a_hint() -> None:
    program = export(Product(), (t(1, 4), t(1, 4)), dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    assert_same(run_session(session_of(program), program, (t(7, 4), t(7, 4))), [Product()(t(7, 4), t(7, 4))])


class Looked(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        both = x + y
        first = both[:, 0]
        return first + torch.arange(x.shape[1]).sum()


def test_a_tie_is_told_at_its_own_line() -> None:
    """Not where the size was asked for again."""
    log = Log()
    export(Looked(), (t(4, 3), t(4, 3)), dynamic_shapes=({0: "n", 1: "m"}, {0: "n", 1: "k"}), log=log)
    (finding,) = (each for each in log.findings if each.level is Level.WARNING)
    assert (finding.rule.id, finding.facts["relation"]) == ("FXP2003", "k == m")
    assert finding.place is not None
    assert "x + y" in (finding.place.snippet or "")


class Tabled(nn.Module):
    @functools.cache  # noqa: B019  # as users write it
    def table(self, n: int) -> Tensor:
        return torch.arange(n)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table(x.shape[1])


@pytest.mark.filterwarnings("ignore:Dynamo detected a call")
def test_what_an_op_asks_of_dynamo_is_no_question_of_the_users() -> None:
    log = Log()
    program = export(Tabled(), (t(4, 3),), dynamic_shapes=({0: "n", 1: "m"},), log=log)
    assert {each.rule.id for each in log.findings if each.level is not Level.NOTE} == set()
    assert_same(run_session(session_of(program), program, (t(1, 5),)), [Tabled()(t(1, 5))])
