"""Stacks of blocks with much that Python can read, exported and held against eager PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from fxport import export
from fxport.exporter.capture.repeated.recorded import Recorded
from tests.running import assert_same, run_session, session_of

BLOCKS, WIDTH = 5, 8


class Block(nn.Module):
    """A layer with much that Python can read."""

    kind = "plain"

    def __init__(self, index: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("shift", torch.randn(WIDTH))
        self.index, self.scale, self.activation = index, 1.5, torch.tanh
        self.steps, self.named = [1.0, 2.0], {"gain": 0.5}
        self.mixed = functools.partial(torch.lerp, weight=0.25)
        self.own = self.shifted

    def shifted(self, x: Tensor) -> Tensor:
        return x + self.shift

    def forward(self, x: Tensor, other: Tensor | None = None, gain: float = 1.0) -> Tensor:
        y = self.down(self.activation(self.up(self.norm(x)))) * self.scale * gain
        for step in self.steps:
            y = y * step + self.named["gain"]
        if self.kind != "plain":
            y = y.abs()
        if self.training:
            y = y + 1
        if other is not None:
            y = y * 2 if other is x else y + other.to(y.dtype)
        return self.own(self.mixed(x, y.to(x.dtype)))


class Stack(nn.Module):
    """Blocks one behind the other; `given` says what each is called with beside the last result."""

    def __init__(self, given: Callable[[int, Tensor], tuple[Any, ...]] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block(index) for index in range(BLOCKS))
        self.given = given or (lambda index, x: ())

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1
        for index, block in enumerate(self.blocks):
            x = block(x, *self.given(index, x))
        return x


@contextmanager
def copies_counted() -> Iterator[list[str]]:
    """Collect the paths of the blocks whose calls are copied."""
    found: list[str] = []
    copied = Recorded.copied

    def noted(self: Recorded, path: str, *rest: Any) -> Any:
        found.append(path.rpartition(".")[2])
        return copied(self, path, *rest)

    with mock.patch.object(Recorded, "copied", noted):
        yield found


def assert_right(model: nn.Module, *inputs: Tensor, shapes: Any = None, others: tuple[Any, ...] = ()) -> list[str]:
    """Hold the exported model against eager PyTorch; return the blocks that were copied."""
    with copies_counted() as copied:
        program = export(model, tuple(each.clone() for each in inputs), dynamic_shapes=shapes)
    session = session_of(program)
    for case in (inputs, *others):
        want = model(*(each.clone() for each in case))
        assert_same(run_session(session, program, case), [want])
    return copied


def attribute(name: str, value: Any) -> Callable[[Stack], Stack]:
    """Give the third block another attribute."""

    def change(model: Stack) -> Stack:
        path, _, last = name.rpartition(".")
        setattr(model.blocks[2].get_submodule(path), last, value)
        return model

    return change


def stack_of(kind: type[Block], change: Callable[[Stack], object] | None = None) -> Stack:
    model = Stack()
    model.blocks = nn.ModuleList(kind(index) for index in range(BLOCKS))
    if change is not None:
        change(model)
    return model.eval()
