"""Sizes that a model keeps in tensors: they stay sizes, and no output has a size that only data tells."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Log
from tests.running import assert_same, run_session, session_of


class Chunks(nn.Module):
    """The number of chunks by `torch.div`, counted on in tensors, and read as sizes."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count: Any = torch.div(x.size(1), 4, rounding_mode="trunc")
        sums = x.view(x.size(0), count, 4, x.size(2)).sum(2)
        return sums, x.new_zeros((count + 1, 2 * count - 1)), count.reshape(1)


def test_sizes_that_tensors_hold() -> None:
    log = Log()
    program = export(Chunks(), (torch.randn(2, 8, 3),), dynamic_shapes=({0: "b", 1: "s"},), log=log)
    assert [f"{each.rule.id} {each.facts['range']}" for each in log.findings] == ["FXP2002 a multiple of 4"]
    x = torch.randn(3, 12, 3)
    assert_same(run_session(session_of(program), program, (x,)), Chunks()(x))
