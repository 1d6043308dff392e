"""Sizes that data decide, read as numbers: also of an operator that a decomposition replaces."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from tests.running import assert_same, run_session, session_of


def regulated(x: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
    """Repeats each row as often as it lasts, as speech models do."""
    y = x.repeat_interleave(counts, 0)
    return y * torch.arange(y.shape[0])[:, None], y.cumsum(0) / y.shape[0]


def counted(x: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
    rows, kept = x.repeat_interleave(counts, 0), counts[counts > 0]
    return torch.arange(rows.shape[0]), torch.zeros(kept.shape[0] * 2), torch.ones(torch.argwhere(counts > 1).shape[0])


class Applied(nn.Module):
    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, counts: Tensor) -> tuple[Tensor, ...]:
        return self.function(x, counts)


@pytest.mark.parametrize("function", [regulated, counted])
def test_a_size_that_data_decide_is_a_number(function: Callable[..., tuple[Tensor, ...]]) -> None:
    x, model = torch.randn(3, 2), Applied(function)
    program = export(model, (x, torch.tensor([2, 0, 3])))
    session = session_of(program)
    for counts in ([2, 0, 3], [1, 1, 0], [0, 4, 4]):
        inputs = (x, torch.tensor(counts))
        assert_same(run_session(session, program, inputs), model(*inputs))


def test_parts_of_a_dynamic_size_of_which_the_last_may_be_smaller() -> None:
    def pieces(x: Tensor, _: Tensor) -> tuple[Tensor, ...]:
        return (torch.cat([piece.cumsum(0) for piece in x.split(2)]),)

    model = Applied(pieces)
    program = export(model, (torch.randn(3, 5), torch.ones(1)), dynamic_shapes=({0: "rows"}, None))
    session = session_of(program)
    for rows in (3, 1, 2, 8, 9):
        inputs = (torch.randn(rows, 5), torch.ones(1))
        assert_same(run_session(session, program, inputs), model(*inputs))
