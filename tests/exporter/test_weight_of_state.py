"""State beside tensors that a model changes: a warning where its next call gives something else, else a note."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fxport import Options, export
from fxport.diagnostics import Level, Log, rules


class Recurrent(nn.Module):
    """Goes on from where its last call ended."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 3, batch_first=True)
        self.state: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        y, self.state = self.layer(x, self.state)
        return y


class TakingTurns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.turn = 0

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layers[self.turn % 3]
        self.turn += 1
        return layer(x)


class Counting(nn.Module):
    """Counts its calls for somebody else; random numbers and buffers are no part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.total.add_(1)
        return nn.functional.dropout(x, 0.5, training=True) * self.total


class FailingAfterwards(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.is_used = False

    def forward(self, x: Tensor) -> Tensor:
        if self.is_used:
            raise RuntimeError("used up")
        self.is_used = True
        return x + 1


def level_of_state(model: nn.Module, options: Options) -> Level:
    log = Log()
    export(model.eval(), torch.ones(2, 4, 3), options=options, log=log)
    (found,) = (each for each in log.findings if each.rule is rules.PYTHON_STATE_BAKED)
    return found.level


@pytest.mark.parametrize(
    ("build", "level"),
    [
        (Recurrent, Level.WARNING),
        (TakingTurns, Level.WARNING),
        (FailingAfterwards, Level.WARNING),
        (Counting, Level.NOTE),
    ],
)
def test_the_next_call_tells_how_grave_it_is(build: Callable[[], nn.Module], level: Level) -> None:
    model = build()
    assert level_of_state(model, Options()) == level
    if isinstance(model, Counting):
        assert (model.calls, float(model.total)) == (0, 0.0)


def test_no_call_is_made_where_nothing_is_to_be_checked() -> None:
    assert level_of_state(TakingTurns(), Options(self_check="never")) == Level.NOTE
