"""Jumps out of `with` and of `try … finally`, behind which something is still done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FLAT, ROWS, SIZES, Row, of


class Scaling(nn.Module):
    """A model with a number that a context manager sets for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 1.0

    @contextlib.contextmanager
    def doubled(self) -> Iterator[None]:
        self.scale *= 2
        try:
            yield
        finally:
            self.scale /= 2


class ReturnsInWith(Scaling):
    def forward(self, x: Tensor) -> Tensor:
        with self.doubled():
            if x.sum() > 0:
                return x * self.scale
            x = x + self.scale
        return x * self.scale


class ReturnsBeforeFinally(nn.Module):
    """Compute the result before the `finally`."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        try:
            if y.sum() > 0:
                return y + self.calls
            y = y + 1
        finally:
            self.calls += 1
            y = y * 100
        return y + self.calls


class JumpsInWith(Scaling):
    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(4)
        for row in x:
            with self.doubled():
                if row.sum() < 0:
                    continue
                h = h + row * self.scale
            h = h * 2
            try:
                if h.sum() > 4:
                    break
                h = h + 1
            finally:
                h = h * 0.5
        return h * 3


class BreaksInAMode(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        h = x * 0.5
        for _ in range(3):
            with torch.no_grad():
                if h.sum() > 2:
                    break
                h = h + x
            h = h * 1.5
        return h


class CaughtAndLeft(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for each in (1.0, 2.0):
            try:
                if x.sum() > each:  # leaves from within an except
                    return x * each
                x = x + 1
            except ValueError:
                return x
        return x


class IteratorLeft(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = enumerate(x.unbind())
        last = x[0]
        for _, row in rows:  # left where data say
            last = row
            if row > 0:
                break
        return last, x.sum() + sum(row for _, row in rows)


class IteratorNumbered(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        rows = iter(x.unbind())
        last = x[0]
        for _, row in enumerate(rows):  # numbered up to there
            last = row
            if row > 0:
                break
        return last, x.sum() + sum(rows)


class IteratorAsked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        places = iter(range(3))
        if any(x[place] > 0 for place in places):  # asked up to there
            x = x * 2
        return x + len(list(places))


class SourceOfItsOwn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        factors, total = [1.0, 2.0, 3.0], x.sum() * 0
        for place, factor in enumerate(factors):
            total = total + x[place] * factor
            if total > 1:
                break
        for factor in factors:
            total = total + factor
        return total


CASES = (
    *of(
        "iterators that data leave",
        Row("break", IteratorLeft, FLAT, None, "# left where data say"),
        Row("break, within enumerate", IteratorNumbered, FLAT, None, "# numbered up to there"),
        Row("any", IteratorAsked, FLAT, None, "# asked up to there"),
        Row("nobody reads on", SourceOfItsOwn, FLAT),
    ),
    *of(
        "jumps out of with and finally",
        Row("return out of with", ReturnsInWith, FLAT),
        Row("return before finally", ReturnsBeforeFinally, FLAT),
        Row("continue and break", JumpsInWith, SIZES, ROWS),
        Row("break out of a mode that is set", BreaksInAMode, FLAT),
        Row("return before except", CaughtAndLeft, FLAT, None, "# leaves from within an except"),
    ),
)
