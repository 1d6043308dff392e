"""Python as people write it, decided by data or over dynamic sizes: equal to eager PyTorch, or told at its line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from tests.running import assert_same, run_exported


class Model(nn.Module):
    """Layers, buffers and settings for the forwards below."""

    def __init__(self, forward: Callable[..., object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("state", torch.zeros(4))
        self.count = 0
        self.kind = "mean"
        self.run = forward

    def update(self, x: Tensor) -> None:
        self.state = torch.tanh(self.state + x)

    def add_to(self, h: Tensor, x: Tensor) -> None:
        h.add_(x)

    def forward(self, x: Tensor) -> object:
        return self.run(self, x)


@dataclass
class Carry:
    h: Tensor
    turns: int = 0


def match_on_settings(self: Model, x: Tensor) -> Tensor:
    match self.kind:
        case "sum":
            y = x.sum(0)
        case "mean" | "average":
            y = x.mean(0)
        case _:
            y = x[0]
    return y


def match_on_data(self: Model, x: Tensor) -> Tensor:
    n = int((x > 0).sum())
    match n:
        case 0:
            y = x + 1
        case 1 | 2:
            y = x * 2
        case k if x.sum() > 1:
            y = x - 1 + k
        case _:
            y = x * 3
    return y


def error_instead(self: Model, x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x * 2
    elif x.sum() < 1000:
        y = x - 1
    else:
        raise ValueError("too large")
    return y


def errors_within(self: Model, x: Tensor) -> Tensor:
    h = x.new_zeros(4)
    for row in x:
        if row.sum() > 1000:
            raise ValueError("too large")
        h = h + row
    if x.sum() > 0:
        if self.kind != "mean":
            raise ValueError("no such kind")
        h = h * 2
    return h


def tried(self: Model, x: Tensor) -> Tensor:
    h = x.new_zeros(4)
    for row in x:
        try:
            h = torch.tanh(row + h)
        finally:
            h = h * 0.5
    if h.sum() > 0:
        try:
            h = self.layers[0](h)
        except RuntimeError:
            h = h + 1
    return h


def loops_with_else(self: Model, x: Tensor) -> Tensor:
    for layer in self.layers:
        x = layer(x)
        if x.sum() > 1:
            break
    else:
        x = x - 10
    while x.abs().sum() > 1:
        x = x * 0.5
        if x.max() > 2:
            break
    else:
        x = x + 1
    return x


def dynamic_with_else(self: Model, x: Tensor) -> Tensor:
    h = x.new_zeros(4)
    for row in x:
        h = h + row
        if h.sum() > 1:
            break
    else:
        h = h + 1
    return h


def walrus(self: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    while (s := x.abs().sum()) > 1:
        x = x * 0.5 + s * 0.01
    if s > 0.5:
        x = x + (y := x * 2) * y
    h = x.new_zeros(4)
    for row in x:
        h = h + (y := torch.tanh(row)) * y
    return h, s


def truth_values(self: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    flag = x.sum() > 0 and not x.mean() > 1
    inside = -1 < x.mean() <= 0.5
    scale = x.sum().clamp(min=0) or x.mean()
    if 0 < x.sum() < 3:
        x = x + 1
    return (x * 2 if flag else x) * scale, torch.where(inside, x, -x)


def truths_of_many(self: Model, x: Tensor) -> Tensor:
    found = [layer(x).sum() for layer in self.layers]
    if any(each > 1 for each in found) and not all(each > -100 for each in found):
        x = x + 1
    done, i = False, 0
    while not done and i < 4:
        x = x * 0.7
        done = bool(x.abs().max() < 0.5)
        i += 1
    if x[0, 0].round() in (0, 1):
        x = x * torch.stack(sorted(found)).mean()
    return torch.stack([row * 2 for row in x if row.sum() > -100])


def forgotten_and_imported(self: Model, x: Tensor) -> Tensor:
    if x.sum() > 0:
        from math import pi

        y = x * pi
        x = y + 1
        del y
    return x


def lists_extended(self: Model, x: Tensor) -> Tensor:
    out: list[Tensor] = []
    for row in x:
        out += [row * 2]
    return torch.stack(out)


def in_place(self: Model, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    h, g = x.new_zeros(4), x.new_zeros(4)
    other = h
    for row in x:
        h += row
        h *= 0.5
        g.add_(row).tanh_()
        self.add_to(g, row)
    return h, other, g


def table_of_states(self: Model, x: Tensor) -> Tensor:
    table = x.new_zeros(x.shape[0] + 1, 4)
    for i in range(x.shape[0]):
        table[i + 1] = torch.tanh(table[i] + x[i])
    return table


def containers_carried(self: Model, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    states, found, carry = [x.new_zeros(4) for _ in self.layers], {"sum": x.new_zeros(4)}, Carry(x.new_zeros(4))
    for row in x:
        y = row
        for k, layer in enumerate(self.layers):
            states[k] = torch.tanh(layer(y) + states[k])
            y = states[k]
        found["sum"] = found["sum"] + y
        carry.h = torch.tanh(carry.h + y)
        carry.turns += 1
    return torch.stack(states), found["sum"], carry.h * carry.turns


def methods_called(self: Model, x: Tensor) -> Tensor:
    for row in x:
        self.update(row)
    h = x.new_zeros(4)
    if x.sum() > 0:
        self.update(x.mean(0))
        self.add_to(h, x.mean(0))
    return self.state + h


def counted_by_hand(self: Model, x: Tensor) -> Tensor:
    i, j, h = 0, x.shape[0] - 1, x.new_zeros(4)
    while i < j:
        h = torch.tanh(h + x[i] * x[j])
        i += 1
        j -= 1
    return h


def closures(self: Model, x: Tensor) -> tuple[Tensor, Tensor]:
    total, y = x.new_zeros(()), x

    def add(value: Tensor) -> None:
        nonlocal total
        if value.sum() > 0:
            total = total + value.sum()

    def doubled() -> Tensor:
        return y * 2

    for layer in self.layers:
        add(layer(x))
    if x.sum() > 0:
        y = x + 1
    return doubled(), total


def numbers_in_branches(self: Model, x: Tensor) -> Tensor:
    n, flag = int(x.abs().sum()), x.mean() > 0
    if x.sum() > 0:
        if flag:
            x = x + 1
        if n > 3:
            x = x * 2
    return x


def nested(self: Model, x: Tensor) -> Tensor:
    """A loop in a branch, and branches in a loop over a number of turns that data tells."""
    if x.max() > 0.75 and x.min() < 0.25:
        for _ in range(int((x > 0.5).sum().clamp(max=3))):
            x = torch.tanh(x * 0.75)
    elif x.mean().item() > 0:
        k = 0
        while k < 3 and (x > 0.5).any():
            k += 1
            x = torch.tanh(x + x.flip(0))
            if x.sum() > 0.5:
                continue
            x = x * 0.75
    else:
        h, found = torch.zeros(4), []
        for i in reversed(range(x.shape[0])):
            h = torch.tanh(h + x[i])
            found.append(h)
        x = torch.stack(found) + h
    return x


def list_of_another(self: Model, x: Tensor) -> Tensor:
    def note(value: Tensor) -> None:
        found.append(value.mean(0))

    found = [x[0]]
    if x.sum() > 0:
        note(x)
    return torch.stack(found).sum(0)


def state_of_another(self: Model, x: Tensor) -> Tensor:
    h = x.new_zeros(4)

    def turn(row: Tensor) -> Tensor:
        return torch.tanh(h + row)

    for row in x:
        h = turn(row)
    return h


def read_within(self: Model, x: Tensor) -> Tensor:
    y = x

    def doubled() -> Tensor:
        return y * 2

    if x.sum() > 0:
        y = x + 1
        x = doubled()
    return x + y


X = torch.tensor([[0.7, -0.4, 0.2, 0.1], [0.3, 0.9, -1.1, 0.6], [-0.5, 0.4, 0.3, -0.2], [0.1, 0.2, -0.3, 0.8]])
CASES = (X, -X[:2].abs(), X.abs() + 0.1, torch.cat([X * 2, X[:3]]), X * 0.01)

KEPT = (
    match_on_settings, match_on_data, error_instead, errors_within, tried, loops_with_else, dynamic_with_else, walrus,
    truth_values, truths_of_many, forgotten_and_imported, lists_extended, in_place, table_of_states, containers_carried,
    methods_called, counted_by_hand, closures, numbers_in_branches, nested,
    list_of_another, state_of_another, read_within,
)  # fmt: skip


@pytest.mark.parametrize("forward", KEPT, ids=lambda each: each.__name__)
def test_equal_to_eager(forward: Callable[..., object]) -> None:
    calls = [(case.clone(),) for case in CASES]
    found = run_exported(Model(forward).eval(), calls, dynamic_shapes={"x": {0: "n"}})
    for case, result in zip(CASES, found, strict=True):
        expected = Model(forward).eval()(case.clone())
        whole = expected if isinstance(expected, tuple) else (expected,)
        assert_same(result[: len(whole)], whole)  # the state that a model leaves comes behind
