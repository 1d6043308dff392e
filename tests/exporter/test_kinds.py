"""Models that ask what kind of number a size is."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from fxport import export
from tests.running import assert_same, run_exported


def doubled_if_whole(x: Tensor, size: float) -> Tensor:
    return x * 2 if isinstance(size, int) else x


class Asking(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size = x.shape[1]
        first = x + 1 if isinstance(size, int | float) and not isinstance(size, bool) else x
        second = x - 1 if isinstance(size / 2, float) else x
        return first, second, doubled_if_whole(x, size)


def test_a_size_is_an_integer() -> None:
    calls = [(torch.randn(2, 3),), (torch.randn(2, 5),)]
    results = run_exported(Asking(), calls, dynamic_shapes={"x": {1: "n"}})
    for call, result in zip(calls, results, strict=True):
        assert_same(result, Asking()(*call))


def test_the_file_is_as_it_was() -> None:
    export(Asking(), torch.randn(2, 3), dynamic_shapes=({1: "n"},))
    assert "isinstance" not in vars(sys.modules[__name__])
