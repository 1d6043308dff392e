"""Sizes that the data and an input determine, which the model says are equal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Log, rules
from tests.running import assert_same, run_session, session_of


class Scattered(nn.Module):
    """The features of pictures or sounds in the places of a text that are marked for them."""

    def forward(self, text: Tensor, marked: Tensor, features: Tensor) -> Tensor:
        torch._check(text[marked].numel() == features.numel())
        return text.masked_scatter(marked.unsqueeze(-1), features)


def call(batch: int, parts: int) -> tuple[Tensor, Tensor, Tensor]:
    marked = torch.arange(9) % 9 < parts
    return torch.randn(batch, 9, 5), marked.expand(batch, 9).clone(), torch.randn(batch, parts, 5)


@pytest.mark.parametrize("parts", [3, 8])
def test_as_many_marks_as_features(parts: int) -> None:
    log = Log()
    shapes = ({0: "batch"}, {0: "batch"}, {0: "batch"})
    program = export(Scattered(), call(2, parts), dynamic_shapes=shapes, log=log)
    assert rules.DIMENSION_RANGE_NARROWED not in {each.rule for each in log.findings}
    session = session_of(program)
    for batch in (2, 3):
        args = call(batch, parts)
        assert_same(run_session(session, program, args), [Scattered()(*args)])
