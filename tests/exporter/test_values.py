"""Sizes that depend on values are tried at other values, and only the inputs that they depend on are changed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.diagnostics import Log
from fxport.exporter.validation.recording import Subject
from fxport.exporter.validation.reference import Case, _further, cases


class Selected(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x[mask] * 2


class Repeated(nn.Module):
    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        return x[torch.repeat_interleave(counts)] + x.sum()


class Best(nn.Module):
    def forward(self, x: Tensor, scores: Tensor) -> Tensor:
        kept = scores > 0.2
        return x[kept][scores[kept].argsort(descending=True)]


class First(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        n = count.item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return x[:n]


def recorded(model: nn.Module, *args: Tensor, hard: bool = False) -> dict[str, Case]:
    program = export(model, args)
    return {case.label: case for case in cases(model, args, None, program, Log(), hard=hard)}


ROWS = [
    (Selected(), torch.tensor([True, False, True, True]), (3, 0, 4)),
    (Repeated(), torch.tensor([1, 2, 0, 3]), (6, 0, 12)),
    (First(), torch.tensor(3), (3, 0, None)),
]


@pytest.mark.parametrize(("model", "deciding", "rows"), ROWS, ids=["mask", "counts", "item"])
def test_the_sizes_differ(model: nn.Module, deciding: Tensor, rows: tuple[int, int, int | None]) -> None:
    x = torch.randn(4, 2)
    found = recorded(model, x, deciding, hard=True)
    sizes = {label: len(case.outputs["output"]) for label, case in found.items()}
    assert sizes["sample"] == rows[0]
    assert sizes["other values"] != rows[0]
    assert sizes["the lowest values"] == rows[1]
    assert sizes.get("the highest values") == rows[2]


def test_no_fraction_is_drawn_twice_since_an_order_would_then_be_open() -> None:
    scores = torch.rand(40, generator=torch.Generator().manual_seed(0))
    found = recorded(Best(), torch.randn(40, 2), scores)["other values"]
    drawn = found.inputs["scores"]
    assert len(set(drawn.tolist())) == 40
    assert not set(drawn.tolist()) >= set(scores.tolist())
    assert 0 <= drawn.min() <= drawn.max() <= 1


def test_inputs_that_make_no_size_stay() -> None:
    x = torch.randn(4, 2)
    found = recorded(Repeated(), x, torch.tensor([1, 2, 0, 3]))["other values"]
    assert (found.inputs["x"] == x.numpy()).all()
    assert sorted(found.inputs["counts"]) != [0, 1, 2, 3]


def test_other_values_are_tried_unasked_and_only_where_a_size_depends_on_them() -> None:
    x, mask = torch.randn(4, 2), torch.tensor([True, False, True, True])
    assert list(recorded(Selected(), x, mask)) == ["sample", "other values"]
    assert list(recorded(nn.Linear(2, 2), x)) == ["sample"]


def test_a_first_run_that_took_long_leaves_others_untried_only_where_it_is_no_warm_up() -> None:
    model, args = nn.Tanh(), (torch.randn(4, 2),)
    program = export(model, args)
    subject = Subject.of(model, program, Log(), random=False)
    tried = {cost: [each.label for each in _further(subject, (args, {}), cost, 1.0)] for cost in (2.0, 9.0)}
    assert tried[2.0]
    assert not tried[9.0]
