"""The example call at another size: what its numbers become."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from diagnostics import Log
from exporter import export, reference


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def second(x: Tensor) -> Tensor:
    """The input at the second size that validation uses, both its axes dynamic."""
    program = export(Nothing(), (x,), dynamic_shapes={"x": {0: "batch", 1: "sequence"}})
    _, other = reference.cases(Nothing(), (x,), None, program, Log())
    return torch.from_numpy(other.inputs["x"])


def test_ids_are_not_repeated() -> None:
    """No row has a token twice, special ones stay what they are, and no id is larger than the largest."""
    ids = torch.tensor([[1, 40, 71, 12, 2], [1, 33, 98, 25, 2]])
    found = second(ids)
    assert found.shape == (4, 10)
    assert found.min() == 1
    assert found.max() == 98
    for row in found:
        tokens = row[(row != 1) & (row != 2)]
        assert len(tokens) == 6
        assert len(tokens.unique()) == 6
    assert torch.equal(found[:2, :5], ids)


@pytest.mark.parametrize(
    "x",
    [
        pytest.param(torch.tensor([[1, 1, 1], [1, 1, 0]]), id="mask"),
        pytest.param(torch.tensor([[0, 1, 2]]).expand(2, 3), id="positions"),
    ],
)
def test_numbers_that_mean_something_are_repeated(x: Tensor) -> None:
    assert torch.equal(second(x), x.repeat(2, 2))
