"""What the capture knows of the values of tensors ends with a write to them, also through another name or a view."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from diagnostics import Level, Log
from exporter import ExportError, export
from tests.running import assert_same, run_exported

WIDTH = 4
CALLS = [(torch.linspace(-1, 1, 4 * WIDTH).view(4, WIDTH),), (torch.ones(5, WIDTH),), (-torch.ones(6, WIDTH),)]


class Experts(nn.Module):
    """Goes through the experts that `prepare` gives, and writes to the mask in the loop."""

    def __init__(self, prepare: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.prepare = prepare

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        hit = x[:3].sum(1) > 0
        places = self.prepare(hit)
        for expert in places:
            out.index_add_(0, torch.arange(x.shape[0]), self.experts[expert](x))  # type: ignore[call-overload]
            hit.zero_()
        return out


def test_a_mask_that_the_loop_over_its_places_writes_to() -> None:
    model = Experts(torch.nonzero)
    with torch.no_grad():
        results = run_exported(model, CALLS, dynamic_shapes={"x": {0: "n"}})
        for call, result in zip(CALLS, results, strict=True):
            assert_same(result, (model(*call),))


def _places_moved(hit: Tensor) -> Tensor:
    places = hit.nonzero()
    places += 1
    places %= 3
    return places


def _places_moved_in_a_view(hit: Tensor) -> Tensor:
    places = hit.nonzero()
    places.flatten().mul_(0)
    return places


def _places_moved_by_data(hit: Tensor) -> Tensor:
    places = hit.nonzero()
    places.data.mul_(0)
    return places


def _mask_emptied(hit: Tensor) -> Tensor:
    places = hit.nonzero()
    hit.zero_()
    return places


def _mask_filled_in_a_view(hit: Tensor) -> Tensor:
    places = torch.where(hit)[0]
    hit[1:].fill_(True)
    return places


@pytest.mark.parametrize(
    "prepare", [_places_moved, _places_moved_in_a_view, _places_moved_by_data, _mask_emptied, _mask_filled_in_a_view]
)
def test_places_are_those_of_a_mask_until_a_write(prepare: Callable[[Tensor], Tensor]) -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Experts(prepare), CALLS[0], dynamic_shapes={"x": {0: "n"}}, log=log)
    assert {finding.rule.id for finding in log.findings if finding.level is Level.ERROR} == {"FXP1002"}
