"""Loops that read and write rows, made at random, as scans in ONNX Runtime and as loops in eager PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fxport import export
from tests.cases.scans import branch, loop, numbers_of
from tests.conftest import QUIET
from tests.running import assert_same, run_session, session_of

PROGRAMS = 6
PARTS, OF_A_PART = 10, 100
"""Of a long run: 1,000 programs, in parts that each keep within the time limit of a test."""

SIZES = ((3, 5), (2, 2), (5, 3), (4, 9))
"""Of the batch and of the axis that the loops go over; the first are those of the example."""

Place = Callable[[Any, Any], Any]

PLACES: dict[str, Place] = {
    "t": lambda t, n: t,
    "t - 1": lambda t, n: t - 1,
    "t + 1": lambda t, n: t + 1,
    "n - 1 - t": lambda t, n: n - 1 - t,
    "-t - 1": lambda t, n: -t - 1,
    "t // 2": lambda t, n: t // 2,
    "0": lambda t, n: 0,
}
STARTS: dict[str, Callable[[Any], Any]] = {
    "0": lambda n: 0,
    "1": lambda n: 1,
    "2": lambda n: 2,
    "-1": lambda n: -1,
    "n // 2": lambda n: n // 2,
}
STOPS: dict[str, Callable[[Any], Any]] = {
    "n": lambda n: n,
    "n - 1": lambda n: n - 1,
    "n - 2": lambda n: n - 2,
    "2": lambda n: 2,
}
STEPS = (1, 1, 1, -1, -1, 2, -2, 3)

Write = Callable[[Tensor, Any, Tensor], None]


def _set(out: Tensor, t: Any, value: Tensor) -> None:
    out[:, t] = value


def _add(out: Tensor, t: Any, value: Tensor) -> None:
    out[:, t] += value


def _part(out: Tensor, t: Any, value: Tensor) -> None:
    out[:, t, 1:3] = value[:, 2:]


def _one(out: Tensor, t: Any, value: Tensor) -> None:
    out[0, t] = value[1]


def _of_view(out: Tensor, t: Any, value: Tensor) -> None:
    out.transpose(0, 1)[t].mul_(value)


def _spread(out: Tensor, t: Any, value: Tensor) -> None:
    out[:, t] = value[:1]


def _number(out: Tensor, t: Any, value: Tensor) -> None:
    out.select(1, t).fill_(0.5)


WRITES: dict[str, Write] = {
    "out[:, t] =": _set,
    "out[:, t] +=": _add,
    "out[:, t, 1:3] =": _part,
    "out[0, t] =": _one,
    "out.transpose(0, 1)[t] *=": _of_view,
    "out[:, t] = one of the batch": _spread,
    "out[:, t] = 0.5": _number,
}

TENSORS = ("x", "y", "first", "second")
"""Two that are only read, two that are carried."""

READ = st.tuples(st.just("read"), st.sampled_from(TENSORS), st.sampled_from(sorted(PLACES)), st.just(""))
WRITE = st.tuples(
    st.just("write"), st.sampled_from(TENSORS[2:]), st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(WRITES))
)
BRANCH = st.tuples(
    st.just("branch"), st.sampled_from(TENSORS[2:]), st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(WRITES))
)
INNER = st.tuples(
    st.just("inner"), st.sampled_from(TENSORS[2:]), st.sampled_from(sorted(PLACES)), st.sampled_from(sorted(WRITES))
)
SWAP = st.just(("swap", "", "", ""))
WHOLE = st.tuples(st.just("whole"), st.sampled_from(TENSORS), st.just(""), st.just(""))
STATEMENTS = st.one_of(READ, READ, WRITE, WRITE, WRITE, BRANCH, INNER, WHOLE, SWAP)
RANGES = st.tuples(st.sampled_from(sorted(STARTS)), st.sampled_from(sorted(STOPS)), st.sampled_from(STEPS))
PROGRAM = st.tuples(RANGES, st.lists(STATEMENTS, min_size=1, max_size=4), st.booleans())


def _read(h: Tensor, out: Tensor, x: Tensor, t: Any, n: Any, place: Place, write: Write) -> Any:
    return torch.sin(h + out[:, place(t, n)]), out


def _write(h: Tensor, out: Tensor, x: Tensor, t: Any, n: Any, place: Place, write: Write) -> Any:
    write(out, place(t, n), h * 0.5 + 0.25)
    return h, out


def _whole(h: Tensor, out: Tensor, x: Tensor, t: Any, n: Any, place: Place, write: Write) -> Any:
    return h + out.mean(1) * 0.25, out


def _branch(h: Tensor, out: Tensor, x: Tensor, t: Any, n: Any, place: Place, write: Write) -> Any:
    def on_true(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
        return _write(h - x[:, t], out, x, t, n, place, write)

    def on_false(h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
        return h + out[:, t] * 0.5, out

    return branch(h.sum() > 0, on_true, on_false, (h, out, x, t))


def _inner(h: Tensor, out: Tensor, x: Tensor, t: Any, n: Any, place: Place, write: Write) -> Any:
    """A loop over the batch, which reads the row of the outer loop and element after element of it."""

    def body(b: Any, h: Tensor, out: Tensor, x: Tensor, t: Any) -> Any:
        h = torch.sin(h + x[b, t] * 0.5)
        out[b, t] = h[0]
        return _write(h, out, x, t, n, place, write)

    size = x.shape[0]
    return loop(body, numbers_of(0, size), [h, out], (x, t), (0, size))


KINDS: dict[str, Callable[..., Any]] = {
    "read": _read,
    "write": _write,
    "whole": _whole,
    "branch": _branch,
    "inner": _inner,
}


class Loop(nn.Module):
    """A loop of these statements, over a range or over it from its end; it may tell the bounds of its numbers."""

    RESULTS = ("h", "first", "second", "stack")
    """Without an iteration, eager PyTorch has no stack."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        *self.program, self.told = program

    def forward(self, x: Tensor, y: Tensor) -> Any:
        (start, stop, step), statements = self.program
        n = x.shape[1]
        first, last = STARTS[start](n), STOPS[stop](n)
        numbers = numbers_of(first, last, step) if step > 0 else numbers_of(last - 1, first - 1, step)

        def body(t: Any, h: Tensor, first: Tensor, second: Tensor, x: Tensor, y: Tensor) -> Any:
            held = {"x": x, "y": y, "first": first, "second": second}
            for kind, name, place, write in statements:
                if kind == "swap":
                    held["first"], held["second"] = held["second"], held["first"]
                else:
                    h, held[name] = KINDS[kind](h, held[name], x, t, n, PLACES[place or "t"], WRITES.get(write, _set))
            return h, held["first"], held["second"], h * 2

        init = [x[:, 0].cos(), x.cos(), y.sin()]
        return tuple(loop(body, numbers, init, (x, y), (first, last) if self.told else None))


def check(program: Any) -> None:
    """Raises AssertionError where ONNX Runtime gives something else than eager PyTorch, at a size where that runs."""
    generator = torch.Generator().manual_seed(0)
    calls = [tuple(torch.randn(b, n, 4, generator=generator) for _ in range(2)) for b, n in SIZES]
    model = Loop(program)
    expected = [_eager(model, call) for call in calls]
    assume(expected[0] is not None)
    model.told &= len(expected[0]) == len(Loop.RESULTS)
    exported = export(model, calls[0], dynamic_shapes=({0: "b", 1: "n"}, {0: "b", 1: "n"}))
    session = session_of(exported)
    for call, wanted in zip(calls, expected, strict=True):
        if wanted is not None:
            results = run_session(session, exported, call)
            assert_same(results[: len(wanted)], wanted)
            assert all(stack.shape == (0, *call[0][:, 0].shape) for stack in results[len(wanted) :])


def _eager(model: Loop, call: tuple[Tensor, ...]) -> Any:
    """What eager PyTorch gives; None where an index is out of range."""
    try:
        return model(*call)
    except IndexError:
        return None


@settings(max_examples=PROGRAMS, suppress_health_check=QUIET, deadline=None)
@given(PROGRAM)
def test_rows_of_loops(program: Any) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_rows_of_loops(part: int) -> None:
    settings(max_examples=OF_A_PART, suppress_health_check=QUIET, deadline=None)(given(PROGRAM)(check))()
