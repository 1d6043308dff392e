"""Questions of ops that decide on memory, or have one answer for all sizes, limit no size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fxport.diagnostics import Level, Log, rules
from tests.running import assert_same, run_exported

IMAGE = {"x": {0: "n", 2: "h", 3: "w"}}


class Called(nn.Module):
    """It calls a function that it is given, which is captured below autograd."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def unshuffled(x: Tensor) -> Tensor:
    return F.pixel_unshuffle(x, 2)


def patches(x: Tensor) -> Tensor:
    return F.unfold(x, 2, stride=2)


def wide(x: Tensor) -> Tensor:
    return F.unfold(x, (2, 3), dilation=(2, 1), stride=(1, 2), padding=(1, 0))


class Stem(nn.Module):
    """Patches, a norm with channels last, and a convolution over patches, of which the example may have one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 8, 8)
        self.norm = nn.LayerNorm(4)
        self.mixed = nn.Conv2d(4, 4, 7, padding=3, groups=4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x).permute(0, 2, 3, 1)
        return self.mixed(self.norm(y).permute(0, 3, 1, 2))


class Tokens(nn.Module):
    """It flattens the positions of a picture that lies in memory in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 4, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.stem(x).transpose(2, 3).flatten(2).permute(0, 2, 1)


class Pooled(nn.Module):
    """The last windows reach out, and those that begin behind the image are left out."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        few = F.max_pool2d(x, 2, 2, padding=1, ceil_mode=True)
        return few, F.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True, count_include_pad=False)


class PooledAfterBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = x * 2 if x.shape[-1] > 6 else x - 1
        return F.max_pool2d(x, 3, 2, ceil_mode=True)


@pytest.mark.parametrize(
    ("model", "size", "told"),
    [
        (Called(unshuffled), (8, 8), {"a multiple of 2"}),
        (Called(patches), (8, 8), set[str]()),
        (Called(wide), (9, 8), {"at least 3"}),
        (Stem(), (32, 24), {"at least 8"}),
        (Stem(), (8, 12), {"at least 8"}),
        (Tokens(), (8, 9), set[str]()),
        (Pooled(), (9, 8), set[str]()),
        (PooledAfterBranch(), (9, 8), set[str]()),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, nn.Module) else None,
)
def test_only_what_the_model_needs_is_told(model: nn.Module, size: tuple[int, int], told: set[str]) -> None:
    calls: list[tuple[Any, ...]] = []
    for count, each in enumerate((size, (8, 8), (3, 3), (16, 9), (4, 6), (1, 5), (40, 24), (2, 4))):
        x = torch.randn(2 + count % 3, 3, *each, generator=torch.Generator().manual_seed(count))
        with suppress(RuntimeError):  # sizes that the model refuses
            model(x)
            calls.append((x,))
    log = Log()
    found = run_exported(model, calls, dynamic_shapes=IMAGE, log=log)
    for got, call in zip(found, calls, strict=True):
        want = model(*call)
        assert_same(got, [*want] if isinstance(want, tuple) else [want])
    limits = [each for each in log.findings if each.rule is rules.DIMENSION_RANGE_NARROWED]
    assert {str(each.facts["range"]) for each in limits} == told
    assert [each for each in log.findings if each.level is not Level.NOTE] == limits
