"""Rows that the iterations of a scan read and write: inputs and outputs of the Scan where that is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import export
from fxport.fx_passes.scans import scans_of
from tests.cases.scans import branch, loop, numbers_of
from tests.running import assert_same, run_session, session_of

SIZES = ((3, 5), (2, 2), (4, 7))
"""Of the batch and of the axis that the loops go over; the first are those of the example."""


@dataclass(frozen=True)
class Row:
    """A loop over the second axis of `x` [batch, n, 4], with `y` [n]; `left` are the numbers of values that are left.

    These are what the scan carries, what it stacks, what it takes rows of, and what it reads whole but for sizes.
    """

    function: Callable[[Tensor, Tensor], Any]
    left: tuple[int, int, int, int]


class Model(nn.Module):
    """A model that is one function."""

    def __init__(self, function: Callable[[Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return tuple(self.function(x, y))


# Reads ----------------------------------------------------------------------------------------------------------------


def reading(read: Callable[..., Tensor], start: int = 0, before: int = 0, step: int = 1) -> Callable[..., Any]:
    """Carries the sum of what is read, and stacks it. The loop ends `before` the end of the axis."""

    def body(t: Any, h: Tensor, x: Tensor, y: Tensor) -> Any:
        row = read(x, t, y)
        return h + row.sum(), row

    def run(x: Tensor, y: Tensor) -> Any:
        stop = x.shape[1] - before
        numbers = numbers_of(start, stop, step) if step > 0 else numbers_of(stop - 1, start - 1, step)
        return loop(body, numbers, [x.new_zeros(())], (x, y), (start, stop))

    return run


def flipped(x: Tensor, y: Tensor) -> Any:
    numbers = torch.arange(1, x.shape[1]).flip(0)
    return loop(lambda t, h, x: (h * 2 + x[:, t].sum(), x[:, t - 1]), numbers, [x.new_zeros(())], (x,))


def nested(x: Tensor, y: Tensor) -> Any:
    def outer(b: Any, h: Tensor, x: Tensor) -> Any:
        inner = numbers_of(0, x.shape[1])
        return loop(lambda t, h, x, b: (h * 0.5 + x[b, t].sum(), x[b, t]), inner, [h], (x, b))

    return loop(outer, numbers_of(0, x.shape[0]), [x.new_zeros(())], (x,), (0, x.shape[0]))


def of_another_size(x: Tensor, y: Tensor) -> Any:
    """Whether each number is within an axis of another size is not known."""
    return loop(lambda t, h, y: (h + y[t], h), numbers_of(0, x.shape[0]), [x.new_zeros(())], (y,))


def by_tensor(x: Tensor, y: Tensor) -> Any:
    def body(t: Any, h: Tensor, x: Tensor, y: Tensor) -> Any:
        place = torch.scalar_tensor(t, dtype=torch.int64)
        table = x[0]
        rows = nn.functional.embedding(place, table), nn.functional.embedding(place.reshape(1), table)
        return h + rows[1].sum(), rows[0], x.index_select(1, place.reshape(1)), torch.ops.aten.index(y, [place])

    return loop(body, numbers_of(0, x.shape[1]), [x.new_zeros(())], (x, y))


READS = {
    "x[:, t]": Row(reading(lambda x, t, y: x[:, t]), (1, 1, 1, 0)),
    "x[:, t] from 1": Row(reading(lambda x, t, y: x[:, t], 1), (1, 1, 1, 0)),
    "x[:, t] between": Row(reading(lambda x, t, y: x[:, t], 1, 1), (1, 1, 1, 0)),
    "x[:, t] from 2, or never": Row(reading(lambda x, t, y: x[:, t], 2), (1, 1, 1, 0)),
    "x[:, t] from 3, or never": Row(reading(lambda x, t, y: x[:, t], 3), (1, 1, 1, 0)),
    "x[:, t] backwards": Row(reading(lambda x, t, y: x[:, t], step=-1), (1, 1, 1, 0)),
    "x[:, t] backwards to 1": Row(reading(lambda x, t, y: x[:, t], 1, step=-1), (1, 1, 1, 0)),
    "x[:, t] by 2": Row(reading(lambda x, t, y: x[:, t], step=2), (1, 1, 1, 0)),
    "x[:, t] by -2": Row(reading(lambda x, t, y: x[:, t], step=-2), (1, 1, 1, 0)),
    "x[:, t] by 3 from 3, or never": Row(reading(lambda x, t, y: x[:, t], 3, step=3), (1, 1, 1, 0)),
    "x[:, t], y[t]": Row(reading(lambda x, t, y: x[:, t] * y[t]), (1, 1, 2, 0)),
    "x[0, t]": Row(reading(lambda x, t, y: x[0, t]), (1, 1, 1, 0)),
    "x[0][t]": Row(reading(lambda x, t, y: x[0][t]), (1, 1, 1, 0)),
    "x.transpose(0, 1)[t]": Row(reading(lambda x, t, y: x.transpose(0, 1)[t]), (1, 1, 1, 0)),
    "x[:, t, 1:3]": Row(reading(lambda x, t, y: x[:, t, 1:3]), (1, 1, 1, 0)),
    "x[:, t, None]": Row(reading(lambda x, t, y: x[:, t, None]), (1, 1, 1, 0)),
    "x[..., t, :]": Row(reading(lambda x, t, y: x[..., t, :]), (1, 1, 1, 0)),
    "x[:, t : t + 1]": Row(reading(lambda x, t, y: x[:, t : t + 1].squeeze(1)), (1, 1, 1, 0)),
    "x.narrow": Row(reading(lambda x, t, y: x.narrow(1, t, 1)), (1, 1, 1, 0)),
    "x[:, t - 1] from 1": Row(reading(lambda x, t, y: x[:, t - 1], 1), (1, 1, 1, 0)),
    "x[:, t - 1], x[:, t]": Row(reading(lambda x, t, y: x[:, t] - x[:, t - 1], 1), (1, 1, 2, 0)),
    "x[:, t + 1]": Row(reading(lambda x, t, y: x[:, t + 1], 0, 1), (1, 1, 1, 0)),
    "x[:, n - 1 - t]": Row(reading(lambda x, t, y: x[:, x.shape[1] - 1 - t]), (1, 1, 1, 0)),
    "x[:, n - t] from 1": Row(reading(lambda x, t, y: x[:, x.shape[1] - t], 1), (1, 1, 1, 0)),
    "x[:, n - 1 - t] backwards": Row(reading(lambda x, t, y: x[:, x.shape[1] - 1 - t], step=-1), (1, 1, 1, 0)),
    "x[:, 2 * t - 2 * t + t]": Row(reading(lambda x, t, y: x[:, 2 * t - 2 * t + t]), (1, 1, 1, 0)),
    "x[mask, t]": Row(reading(lambda x, t, y: x[x[:, 0, 0] < 9, t]), (1, 1, 1, 1)),
    "x[places, t]": Row(reading(lambda x, t, y: x[torch.tensor([0, 1, 0]), t]), (1, 1, 1, 0)),
    "x[:, t - 1]: the first is the last": Row(reading(lambda x, t, y: x[:, t - 1]), (1, 1, 1, 1)),
    "x[:, -t - 1]: from the end": Row(reading(lambda x, t, y: x[:, -t - 1]), (1, 1, 1, 1)),
    "x[:, t * t % 2]": Row(reading(lambda x, t, y: x[:, t * t % 2]), (1, 1, 1, 1)),
    "x[:, t // 2]": Row(reading(lambda x, t, y: x[:, t // 2]), (1, 1, 1, 1)),
    "flipped": Row(flipped, (1, 1, 2, 0)),
    "nested": Row(nested, (1, 1, 1, 0)),
    "of another size": Row(of_another_size, (1, 1, 1, 1)),
    "by tensor": Row(by_tensor, (1, 3, 3, 0)),
}


# Writes ---------------------------------------------------------------------------------------------------------------


def writing(write: Callable[..., object], start: int = 0, before: int = 0, step: int = 1) -> Callable[..., Any]:
    """Writes to a carried tensor [batch, n, 4], beside a number that is carried too."""

    def run(x: Tensor, y: Tensor) -> Any:
        def body(t: Any, h: Tensor, out: Tensor, x: Tensor) -> Any:
            h = h * 0.5 + 1
            write(out, t, h, x)
            return h, out

        stop = x.shape[1] - before
        numbers = numbers_of(start, stop, step) if step > 0 else numbers_of(stop - 1, start - 1, step)
        return loop(body, numbers, [x.new_ones(()), x.cos()], (x,), (start, stop))

    return run


def put(index: Callable[[Any], Any], value: Callable[..., Any]) -> Callable[..., None]:
    """`out[index(t)] = value(out, t, h, x)`."""

    def write(out: Tensor, t: Any, h: Tensor, x: Tensor) -> None:
        out[index(t)] = value(out, t, h, x)

    return write


ROW = put(lambda t: (slice(None), t), lambda out, t, h, x: x[:, t] * h)
BEFORE = put(lambda t: (slice(None), t), lambda out, t, h, x: out[:, t] + x[:, t] * h)


def twice(out: Tensor, t: Any, h: Tensor, x: Tensor) -> None:
    out[:, t] += h
    out[:, t, :2] = out[:, t, 1:3] * 2
    out[:, t] = out[:, t] + x[:, t]


def opposite(out: Tensor, t: Any, h: Tensor, x: Tensor) -> None:
    out[:, out.shape[1] - 1 - t] = x[:, t]


def masked(out: Tensor, t: Any, h: Tensor, x: Tensor) -> None:
    out[x[:, t, 0] > 0, t] = h


def placed(out: Tensor, t: Any, h: Tensor, x: Tensor) -> None:
    out[torch.tensor([1, 0]), t, 1:3] = x[:2, t, :2] * h


def elsewhere(out: Tensor, t: Any, h: Tensor, x: Tensor) -> None:
    out[:, t] = x[:, t] * h
    out[:, t - 1] = h


def two_tensors(x: Tensor, y: Tensor) -> Any:
    """What one iteration writes to a tensor it reads again for another one."""

    def body(t: Any, first: Tensor, second: Tensor, x: Tensor) -> Any:
        first[:, t] = x[:, t] * 2
        second[t] = first[0, t] + second[t]
        return first, second

    return loop(body, numbers_of(0, x.shape[1]), [torch.zeros_like(x), torch.ones_like(x[0])], (x,))


def given_twice(x: Tensor, y: Tensor) -> Any:
    """The tensor is also stacked, as it is after each iteration."""

    def body(t: Any, out: Tensor, x: Tensor) -> Any:
        out[:, t] = x[:, t] * 2
        return out, out

    return loop(body, numbers_of(0, x.shape[1]), [torch.zeros_like(x)], (x,))


def exchanged(x: Tensor, y: Tensor) -> Any:
    """Each iteration writes to what the other tensor was."""

    def body(t: Any, first: Tensor, second: Tensor, x: Tensor) -> Any:
        first[:, t] = x[:, t] * 2
        return second, first

    return loop(body, numbers_of(0, x.shape[1]), [torch.zeros_like(x), torch.ones_like(x)], (x,))


WRITES = {
    "out[:, t] =": Row(writing(ROW), (1, 1, 1, 0)),
    "out[:, t] = from 1": Row(writing(ROW, 1), (1, 1, 1, 0)),
    "out[:, t] = between, or never": Row(writing(ROW, 1, 1), (1, 1, 1, 0)),
    "out[:, t] = from 3, or never": Row(writing(ROW, 3), (1, 1, 1, 0)),
    "out[:, t] = backwards": Row(writing(ROW, step=-1), (1, 1, 1, 0)),
    "out[:, t] = by 2": Row(writing(ROW, step=2), (1, 1, 1, 0)),
    "out[:, t] = by -2 to 1": Row(writing(ROW, 1, step=-2), (1, 1, 1, 0)),
    "out[:, t] = a number": Row(writing(put(lambda t: (slice(None), t), lambda out, t, h, x: h)), (1, 1, 1, 0)),
    "out[:, t] = one of the batch": Row(
        writing(put(lambda t: (slice(None), t), lambda out, t, h, x: x[:1, t])), (1, 1, 1, 0)
    ),
    "out[:, n - 1 - t] =": Row(writing(opposite), (1, 1, 1, 0)),
    "out[:, -1 - t] =: from the end": Row(
        writing(put(lambda t: (slice(None), -1 - t), lambda out, t, h, x: x[:, t])), (2, 0, 2, 0)
    ),
    "out[:, t + 1] =": Row(
        writing(put(lambda t: (slice(None), t + 1), lambda out, t, h, x: x[:, t] * h), 0, 1), (1, 1, 1, 0)
    ),
    "out[:, t : t + 1] =": Row(
        writing(put(lambda t: (slice(None), slice(t, t + 1)), lambda out, t, h, x: x[:, t, None] * h)), (1, 1, 1, 0)
    ),
    "out[:, t] +=": Row(writing(BEFORE), (1, 1, 2, 0)),
    "out[:, t] += backwards to 1": Row(writing(BEFORE, 1, step=-1), (1, 1, 2, 0)),
    "out[:, t] again and again": Row(writing(twice), (1, 1, 2, 0)),
    "out[:, t, :2] =": Row(
        writing(put(lambda t: (slice(None), t, slice(2)), lambda out, t, h, x: x[:, t, 2:])), (1, 1, 2, 0)
    ),
    "out[0, t] =": Row(writing(put(lambda t: (0, t), lambda out, t, h, x: x[0, t] * h)), (1, 1, 2, 0)),
    "out[mask, t] =": Row(writing(masked), (1, 1, 2, 0)),
    "out[places, t] =": Row(writing(placed), (1, 1, 2, 0)),
    "two tensors": Row(two_tensors, (0, 2, 2, 0)),
    "out[:, t] = of out[:, t - 1]": Row(
        writing(put(lambda t: (slice(None), t), lambda out, t, h, x: out[:, t - 1] + h), 1), (2, 0, 1, 0)
    ),
    "out[:, t] = of all": Row(
        writing(put(lambda t: (slice(None), t), lambda out, t, h, x: out.sum(1) * 0.1 + h)), (2, 0, 1, 0)
    ),
    "out[:, t - 1] =: the first is the last": Row(
        writing(put(lambda t: (slice(None), t - 1), lambda out, t, h, x: out[:, t - 1] + h)), (2, 0, 1, 0)
    ),
    "out[:, t % 2] =": Row(writing(put(lambda t: (slice(None), t % 2), lambda out, t, h, x: h)), (2, 0, 1, 0)),
    "out[:, 0] =": Row(writing(put(lambda t: (slice(None), 0), lambda out, t, h, x: x[:, t] * h)), (2, 0, 1, 0)),
    "two rows": Row(writing(elsewhere, 1), (2, 0, 2, 0)),
    "given twice": Row(given_twice, (1, 1, 2, 0)),
    "exchanged": Row(exchanged, (2, 0, 2, 0)),
}


# Within other control flow --------------------------------------------------------------------------------------------


def branches(on_true: Callable[..., Any], on_false: Callable[..., Any], start: int = 1) -> Callable[..., Any]:
    """Carries a number and a tensor; each branch gives them anew, of these, `x` and the number of the iteration."""

    def run(x: Tensor, y: Tensor) -> Any:
        def body(t: Any, h: Tensor, out: Tensor, x: Tensor) -> Any:
            return branch(x[:, t].sum() > 0, on_true, on_false, (h * 0.5 + 1, out, x, t))

        n = x.shape[1]
        return loop(body, numbers_of(start, n), [x.new_ones(()), x.cos()], (x,), (start, n))

    return run


def unchanged(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    return h, out


def set_row(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    out[:, t] = x[:, t - 1] * h
    return h + 1, out


def add_to_row(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    out[:, t] += h
    return out[:, t].mean(), out


def set_part(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    out[:, t, 1:] = h
    return h, out


def set_row_before(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    out[:, t - 1] = h
    return h, out


def set_all(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    return h, out * 0.5


def nested_branches(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
    return branch(h.sum() > 2, set_row, set_part, (h, out, x, t))


def written_in_nested(x: Tensor, y: Tensor) -> Any:
    def outer(b: Any, h: Tensor, out: Tensor, x: Tensor) -> Any:
        def inner(t: Any, h: Tensor, out: Tensor, x: Tensor, b: Any) -> Any:
            h = h * 0.5 + x[b, t].sum()
            out[b, t] = out[b, t] * h + x[b, t]
            return h, out

        n = x.shape[1]
        return loop(inner, numbers_of(0, n), [h, out], (x, b), (0, n))

    return loop(outer, numbers_of(0, x.shape[0]), [x.new_zeros(()), x.cos()], (x,), (0, x.shape[0]))


def row_of_outer(x: Tensor, y: Tensor) -> Any:
    """Each iteration of the inner loop reads and writes the row of the outer one."""

    def outer(t: Any, h: Tensor, out: Tensor, x: Tensor) -> Any:
        def inner(_: Any, h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
            out[:, t] = out[:, t] * 0.5 + x[:, t]
            return h + out[:, t].sum(), out

        return loop(inner, numbers_of(0, x.shape[0]), [h, out], (x, t), (0, x.shape[0]))

    return loop(outer, numbers_of(1, x.shape[1]), [x.new_zeros(()), x.cos()], (x,), (1, x.shape[1]))


WITHIN = {
    "one branch sets": Row(branches(set_row, unchanged), (1, 1, 3, 0)),
    "the other sets": Row(branches(unchanged, set_row), (1, 1, 3, 0)),
    "both set": Row(branches(set_row, add_to_row), (1, 1, 3, 0)),
    "one sets a part": Row(branches(set_part, add_to_row), (1, 1, 2, 0)),
    "branches in a branch": Row(branches(nested_branches, add_to_row), (1, 1, 3, 0)),
    "other rows": Row(branches(set_row, set_row_before), (2, 0, 3, 0)),
    "a row or all": Row(branches(set_row, set_all), (2, 0, 3, 0)),
    "a row, and the one before: at first the last": Row(branches(set_row, unchanged, 0), (1, 1, 3, 1)),
    "written in a nested loop": Row(written_in_nested, (1, 1, 2, 0)),
    "row of the outer loop": Row(row_of_outer, (1, 1, 2, 0)),
}


# Trimming -------------------------------------------------------------------------------------------------------------


def unused(x: Tensor, y: Tensor) -> Any:
    """One carried value is for itself alone, one never changes, one is needed by another; a stack is not wanted."""

    def body(t: Any, a: Tensor, b: Tensor, c: Tensor, d: Tensor, x: Tensor, same: Tensor) -> Any:
        return a + b * d + same[0, 0, 0], b, c * 2, d + x[:, t].sum(), x[:, t], a * 2

    one = x.new_ones(())
    a, b, _, _, _, stack = loop(body, numbers_of(0, x.shape[1]), [one, one * 2, one * 3, one * 4], (x, x))
    return a, b, stack


def counting(x: Tensor, y: Tensor) -> Any:
    """Nothing but the number of iterations goes in."""
    return loop(lambda t, h: (h * 0.5 + 1, h), numbers_of(0, x.shape[1]), [x.new_zeros(())])


TRIMS = {"unused": Row(unused, (2, 1, 1, 2)), "counting": Row(counting, (1, 1, 1, 0))}

ROWS = {**READS, **WRITES, **WITHIN, **TRIMS}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    row = ROWS[name]
    model = Model(row.function)
    calls = [(torch.randn(b, n, 4, generator=G), torch.randn(n, generator=G)) for b, n in SIZES]
    program = export(model, calls[0], dynamic_shapes=({0: "b", 1: "n"}, {0: "n"}))
    session = session_of(program)
    for call in calls:
        results, expected = run_session(session, program, call), model(*call)
        assert_same(results[: len(expected)], expected)
        assert not any(stack.shape[0] for stack in results[len(expected) :])
    *_, scan = scans_of(program.program.graph_module)
    size = torch.ops.aten.sym_size.int
    whole = [each for each in scan.additional if any(user.target is not size for user in each.placeholder.users)]
    assert (len(scan.carried), len(scan.stacked), len(scan.xs), len(whole)) == row.left


G = torch.Generator().manual_seed(0)
