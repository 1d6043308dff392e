"""What the capture knows of the values of tensors ends with a write to them, also through another name or a view."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from fxport.exporter.capture.function_mode import FunctionMode
from fxport.exporter.capture.knowledge import WritesCounted, known, note
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
    """Then only the data tell them."""
    model = Experts(prepare)
    with torch.no_grad():
        results = run_exported(model, CALLS, dynamic_shapes={"x": {0: "n"}})
        for call, result in zip(CALLS, results, strict=True):
            assert_same(result, (model(*call),))


def test_a_fact_is_known_until_a_write() -> None:
    tensor, mask = torch.zeros(3), torch.zeros(3)
    note(tensor, "places of", "a mask", mask)
    assert known(tensor, "places of") == "a mask"
    assert known(tensor, "below") is None
    assert known(mask, "places of") is None
    mask[1:].add_(1)
    assert known(tensor, "places of") is None
    note(tensor, "places of", "a mask", mask)
    tensor.detach().add_(1)
    assert known(tensor, "places of") is None


def test_nothing_is_known_of_tensors_whose_writes_are_not_counted() -> None:
    with torch.inference_mode():
        tensor = torch.zeros(3)
    note(tensor, "below", 3)
    assert known(tensor, "below") is None


def test_writes_that_pytorch_does_not_count() -> None:
    with FakeTensorMode(), torch.no_grad(), FunctionMode([WritesCounted()]):
        tensor, other = torch.zeros(3), torch.zeros(3)
        for write in (
            lambda: torch._foreach_add_([other, tensor], 1.0),  # type: ignore[attr-defined]
            lambda: torch.ops.aten._foreach_mul_.Scalar([tensor], 2.0),
            lambda: torch.nn.functional.batch_norm(torch.ones(4, 3), other, tensor, training=True),
            lambda: tensor.add_(1),
        ):
            note(tensor, "below", 3)
            assert known(tensor, "below") == 3
            write()
            assert known(tensor, "below") is None


class Chosen(nn.Module):
    """Branches on a number in a buffer, whose branches no cond can hold, once `prepare` has made it."""

    numbers: Tensor

    def __init__(self, prepare: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.register_buffer("numbers", torch.tensor([1, 1]))
        self.prepare = prepare

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        if self.prepare(self.numbers, x).sum() > 2:
            return {"a": x * 2, "b": x}
        return {"c": x * 3}


def _as_it_is(numbers: Tensor, x: Tensor) -> Tensor:
    return numbers


def _known_written_in_a_view(numbers: Tensor, x: Tensor) -> Tensor:
    kept = numbers.clone()
    kept[1:].add_(4)
    return kept


@pytest.mark.parametrize("prepare", [_as_it_is, _known_written_in_a_view])
def test_a_branch_on_known_numbers(prepare: Callable[[Tensor, Tensor], Tensor]) -> None:
    model, x = Chosen(prepare), torch.ones(2, 3)
    assert_same(run_exported(model, [(x,)])[0], [*model(x).values()])


def _written_by_data(numbers: Tensor, x: Tensor) -> Tensor:
    kept = numbers.clone()
    kept.data.copy_((x.sum() > 0).long().expand(2) * 4)
    return kept


def _written_as_out(numbers: Tensor, x: Tensor) -> Tensor:
    kept = numbers.clone()
    torch.add(kept, (x.sum() > 0).long() * 4, out=kept)
    return kept


def _written_in_a_list(numbers: Tensor, x: Tensor) -> Tensor:
    kept = numbers.clone()
    torch._foreach_add_([kept], [(x.sum() > 0).long().expand(2) * 4])  # type: ignore[attr-defined]
    return kept


def _written_by_an_operator(numbers: Tensor, x: Tensor) -> Tensor:
    kept = numbers.clone()
    torch.ops.aten.index_put_(kept, [torch.tensor([0])], (x.sum() > 0).long() * 4)
    return kept


@pytest.mark.parametrize("prepare", [_written_by_data, _written_as_out, _written_in_a_list, _written_by_an_operator])
def test_numbers_are_known_until_data_is_written(prepare: Callable[[Tensor, Tensor], Tensor]) -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(Chosen(prepare), (torch.ones(2, 3),), log=log)
    assert {finding.rule.id for finding in log.findings if finding.level is Level.ERROR} == {"FXP1002"}


class Counted(nn.Module):
    """As many counts as the remainders may have, until something is written to them."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        plain, through_view, by_data, as_out = (torch.arange(x.shape[0]) % 3 for _ in range(4))
        through_view.view(-1)[0].fill_(7)
        by_data.data[0] = 6
        torch.add(as_out, 5, out=as_out)
        return tuple(torch.bincount(each, minlength=3) for each in (plain, through_view, by_data, as_out))


def test_bounds_are_those_before_a_write() -> None:
    model, calls = Counted(), [(torch.ones(4),), (torch.ones(7),)]
    for call, result in zip(calls, run_exported(model, calls, dynamic_shapes={"x": {0: "n"}}), strict=True):
        assert_same(result, model(*call))


class Some(nn.Module):
    """The truth of whether a mask has some effect, turned round in place."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        some = mask.any()
        some.logical_not_()
        if some:  # noqa: SIM108  # branches that no cond holds
            made = {"x": x * 2, "y": [x, x]}
        else:
            made = {"x": x * 3}
        return made["x"]


def test_a_truth_that_is_written_to_is_not_presumed() -> None:
    model, log = Some(), Log()
    calls = [(torch.ones(3), torch.tensor(mask)) for mask in ([True, False], [False, False])]
    for call, result in zip(calls, run_exported(model, calls, log=log), strict=True):
        assert_same(result, (model(*call),))
    assert all(finding.level is Level.NOTE for finding in log.findings)
