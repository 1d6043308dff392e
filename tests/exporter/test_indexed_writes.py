"""Writes and reads at a place that a tensor says, as caches with a position have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from tests.running import assert_same, run_exported

Write = Callable[[Tensor, Tensor, Tensor], None]


class Written(nn.Module):
    """A copy of its input, with something written into it."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: Tensor, place: Tensor, value: Tensor) -> Tensor:
        x = x.clone()
        self.write(x, place, value)
        return x


def row(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[place] = value


def column(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, place] = value


def last(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[..., place] = value


def corner(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[0, place, 1:] = value[1:]


def twice(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[None, place, :, place] = value


def number(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, place] = 2


def added(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, place] += value


def with_an_axis_more(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, place] = value.expand(1, 4, 4)


def item(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, place.item()] = value  # type: ignore[index]  # the stub knows no symbolic number


def whole_number(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, int(place)] = value


def through_a_view(x: Tensor, place: Tensor, value: Tensor) -> None:
    x[:, place].add_(value)


WRITES: tuple[Write, ...] = (
    row,
    column,
    last,
    corner,
    twice,
    number,
    added,
    with_an_axis_more,
    item,
    whole_number,
    through_a_view,
)


@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.__name__)
def test_a_write_at_a_place(write: Write) -> None:
    model = Written(write)
    places = (0, 3) if write is whole_number or write is item else (0, 3, -1)
    calls: list[tuple[Any, ...]] = [(torch.randn(4, 4, 4), torch.tensor(place), torch.randn(4)) for place in places]
    for call, result in zip(calls, run_exported(model, calls), strict=True):
        assert_same(result, (model(*call),))


class Cache(nn.Module):
    """Counts its own steps."""

    keys: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 4))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, key: Tensor) -> Tensor:
        self.keys[:, self.steps] = key
        self.steps += 1
        return self.keys.sum(-1)


def test_a_cache_that_counts_its_steps() -> None:
    (result,) = run_exported(Cache(), [(torch.ones(2, 4),)])
    assert_same(result[:1], (Cache()(torch.ones(2, 4)),))


class Chosen(nn.Module):
    """Reads and writes what a truth without axes chooses: all of a tensor, with an axis more, or nothing."""

    def forward(self, x: Tensor, row: Tensor, number: Tensor) -> tuple[Tensor, ...]:
        truth = number > 0
        filled, copied, added, moved = (x.clone() for _ in range(4))
        filled[truth] = 3
        copied[truth] = row[None]
        added[1][truth] += row
        moved[truth] = (x * 2)[truth] + 1
        number = number.clone()
        number[number > 0] = 7.0
        return filled, copied, added, moved, number, x[truth], row[truth].sum(), number[number > 8]


def test_what_a_truth_chooses() -> None:
    calls = [(torch.randn(2, 3), torch.randn(3), torch.tensor(value)) for value in (2.0, -1.0)]
    for call, result in zip(calls, run_exported(Chosen(), calls), strict=True):
        assert_same(result, Chosen()(*call))


class BesideSizes(nn.Module):
    """Reads and writes where one index is `True`, which is an axis of one element, and another one a size."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        n, written = x.shape[0], x.clone()
        written[n - 1, True, 1:] = 7.0
        written[True, n - 2] *= 2
        return (
            x[n - 1, ::2, True],
            x[True, n - 1],
            x[: n - 1, True],
            x[..., True, : n // 2],
            x[None, n - 1, True],
            written,
        )


def test_true_as_an_index_beside_a_size() -> None:
    calls = [(torch.randn(n, 3, 4),) for n in (5, 4, 9)]
    results = run_exported(BesideSizes(), calls, dynamic_shapes=({0: "n"},))
    for call, result in zip(calls, results, strict=True):
        assert_same(result, BesideSizes()(*call))


@pytest.mark.parametrize("more", [(False,), (True, True)])
def test_other_truths_as_indices_beside_a_size_are_refused(more: tuple[bool, ...]) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x[(x.shape[0] - 1, *more)]

    with pytest.raises(ExportError, match="it indexes by `True` or `False` beside a size") as caught:
        export(Model(), (torch.randn(5, 3),), dynamic_shapes=({0: "n"},))
    assert "Write `None` for `True`" in str(caught.value)
