"""Loops over a dynamic size in a training step: refused where they would be differentiated, and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch._higher_order_ops.map import map as mapped

from fxport import ExportError
from fxport.diagnostics import rules
from fxport.exporter.training import export_training_step
from tests.training import assert_teacher_forced

SIZES = ({0: "batch", 1: "time"},)


class Chain(nn.Module):
    """Scores of states at each time, and of steps from one state to the next."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.score, self.moves = nn.Linear(4, 3), nn.Parameter(0.1 * torch.randn(3, 3))


def data() -> list[tuple[Tensor]]:
    drawn = torch.Generator().manual_seed(0)
    return [(torch.randn(n, time, 4, generator=drawn),) for n, time in ((3, 5), (2, 8), (4, 2))]


def over_times(model: Any, x: Tensor) -> Tensor:
    scores, total = model.score(x), torch.zeros(x.shape[0], 3)
    for time in range(x.shape[1]):  # here
        total = torch.logsumexp(total[:, :, None] + model.moves, 1) + scores[:, time]
    return total.logsumexp(1).mean()


def over_rows(model: Any, x: Tensor) -> Tensor:
    total = model.moves.sum()
    for row in model.score(x):  # here
        total = total + row.exp().sum()
    return total / x.shape[0]


@pytest.mark.parametrize("loss", [over_times, over_rows])
def test_a_loop_that_is_differentiated_is_refused_at_its_line(loss: Any) -> None:
    model = Chain()
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss, data()[0], dynamic_shapes=SIZES)
    told = next(each for each in raised.value.log.findings if each.rule is rules.DIMENSION_SPECIALIZED)
    assert "keeps no number of a turn" in told.message
    assert "loop by `while` with a tensor that counts" in told.message
    assert told.place is not None
    assert told.place.path == __file__
    assert "# here" in Path(__file__).read_text(encoding="utf-8").splitlines()[told.place.line - 1]


def by_a_count(model: Any, x: Tensor) -> Tensor:
    scores, total, time = model.score(x), torch.zeros(x.shape[0], 3), torch.zeros((), dtype=torch.int64)
    while time < x.shape[1]:
        total = torch.logsumexp(total[:, :, None] + model.moves, 1) + scores.index_select(1, time[None])[:, 0]
        time = time + 1
    return total.logsumexp(1).mean()


def by_map(model: Any, x: Tensor) -> Tensor:
    sums = mapped(lambda row: model.score(row).exp().sum(), x)  # pyright: ignore[reportArgumentType]
    return (model.moves.sum() + sums.sum()) / x.shape[0]


def without_gradients(model: Any, x: Tensor) -> Tensor:
    total = torch.zeros(())
    with torch.no_grad():
        for row in model.score(x):
            total = total + row.exp().sum()
    return total / x.shape[0] * (model.moves.sum() + model.score(x).mean())


@pytest.mark.parametrize("loss", [by_a_count, by_map, without_gradients])
def test_the_cures_and_loops_without_gradients_are_trained(loss: Any, tmp_path: Path) -> None:
    model = Chain()
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    assert_teacher_forced(model, optimizer, loss, data(), tmp_path, steps=6, dynamic_shapes=SIZES)


@pytest.mark.parametrize(("loss", "cure"), [(over_times, by_a_count), (over_rows, by_map)])
def test_the_cures_are_the_same_losses(loss: Any, cure: Any) -> None:
    model = Chain()
    for batch in data():
        torch.testing.assert_close(cure(model, *batch), loss(model, *batch))
