"""Writes to memory that the same operation reads at other places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.soundness.case import COLUMNS, Row, drawn, of

INPUTS = tuple((drawn(5, size),) for size in (10, 12, 16, 30))


class Writing(nn.Module):
    """Write to a copy of the input."""

    def __init__(self, write: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone()
        self.write(x)
        return x


def shift(x: Tensor) -> None:
    x[:, 1:] = x[:, :-1]  # shifts


def shift_by_five(x: Tensor) -> None:
    x[:, 5:] = x[:, :-5]  # apart for ten columns, and not for more


def first_row(x: Tensor) -> None:
    x[:, 0] -= x[0, 0]  # takes away what it has changed


def summed(x: Tensor) -> None:
    x[:, 1:].add_(x[:, :-1])  # adds


def turned(x: Tensor) -> None:
    part = x[:, :3]
    part[:3] = part[:3].T  # turns


def into(x: Tensor) -> None:
    torch.add(x[:, 1:], 1, out=x[:, :-1])  # gives its result to what it reads


def apart(x: Tensor) -> None:
    half = x.shape[1] // 2
    x[:, 0] += x[:, 1]
    x[:, 0], x[:, 1] = x[:, 1], x[:, 0]
    x[:, :half] = x[:, half : 2 * half]
    x += x
    x[1:] -= x[0]
    x[:] = x.flip(0)
    x[2:] = x[0]
    x[1] = x[1, 0]
    x[0] = x[:1]
    x[3].fill_(x[3, 0])


CASES = of(
    "memory that is read and written to",
    Row("a shift", lambda: Writing(shift), INPUTS, COLUMNS, "# shifts"),
    Row("a shift by five", lambda: Writing(shift_by_five), INPUTS, COLUMNS, "# apart for ten columns"),
    Row("a difference to the first row", lambda: Writing(first_row), INPUTS, COLUMNS, "# takes away what"),
    Row("a sum", lambda: Writing(summed), INPUTS, COLUMNS, "# adds"),
    Row("a transposition", lambda: Writing(turned), INPUTS, COLUMNS, "# turns"),
    Row("a result", lambda: Writing(into), INPUTS, COLUMNS, "# gives its result"),
    Row("other places, and the same", lambda: Writing(apart), INPUTS, COLUMNS, or_right=True),
)
