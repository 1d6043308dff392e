"""Dimensions that are derived from others, such as `2 * Dim("n")`: promises of the user, kept in the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.export import Dim

from fxport import export
from fxport.diagnostics import Log
from tests.exporter.test_capture import dims
from tests.running import assert_same, run_session, session_of


class Twice(torch.nn.Module):
    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        return torch.cat([one, one]) + two


def test_it_is_what_was_asked_for() -> None:
    log, n = Log(), Dim("n")
    program = export(Twice(), (torch.randn(3), torch.randn(6)), dynamic_shapes=({0: n}, {0: 2 * n}), log=log)
    assert dims(program) == {"one": ["n"], "two": ["2*n"], "output": ["2*n"]}
    assert not log.findings


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[: y.shape[0]] + y, x.reshape(-1, 2)


class Fours(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 4, 3).sum(1)


N = Dim("n", max=40)


@pytest.mark.parametrize(
    ("model", "sizes", "others", "shapes", "want"),
    [
        (Halves, (8, 4), (12, 6), (2 * N, N), {"x": "2*n", "y": "n"}),
        (Halves, (9, 4), (13, 6), (2 * N + 1, N), {"x": "2*n + 1", "y": "n"}),
        (Halves, (8, 7), (4, 3), (N, N - 1), {"x": "n", "y": "n - 1"}),
        (Halves, (9, 6), (12, 8), (3 * N, 2 * N), {"x": "3*n", "y": "2*n"}),
        (Fours, (8,), (20,), (4 * N,), {"x": "4*n"}),
    ],
)
def test_it_is_a_promise(model: Any, sizes: Any, others: Any, shapes: Any, want: dict[str, str]) -> None:
    """Nothing is said of what follows from it; the multiple of a size that no input has is one all the same."""
    log = Log()
    args, case = ([torch.randn(size, 3 if model is Fours else 2) for size in each] for each in (sizes, others))
    program = export(model(), tuple(args), dynamic_shapes=tuple({0: each} for each in shapes), log=log)
    assert {name: dims(program)[name][0] for name in want} == want
    assert not [finding.message for finding in log.findings]
    outputs = model()(*case)
    assert_same(run_session(session_of(program), program, tuple(case)), [outputs] if model is Fours else list(outputs))


@pytest.mark.parametrize(
    ("sizes", "shapes", "said"),
    [
        ((8, 5), (2 * N, N), "'n' is 4 in 'x' and 5 in 'y'"),
        ((7, 3), (2 * N, N), "dimension 0 of 'x' is 7 in the example, which is not '2\\*n'"),
    ],
)
def test_an_example_that_it_is_not(sizes: Any, shapes: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        export(Halves(), tuple(torch.randn(n, 2) for n in sizes), dynamic_shapes=tuple({0: each} for each in shapes))


def test_it_may_be_narrowed_further() -> None:
    log = Log()
    export(Fours(), (torch.randn(8, 3),), dynamic_shapes=({0: 2 * N},), log=log)
    told = [(f.rule.id, f.facts["dim"], f.facts["range"]) for f in log.findings]
    assert told == [("FXP2002", "n", "a multiple of 2")]
