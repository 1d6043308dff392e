"""Repeated blocks beside state: what Python changes between two calls, and modes around some of them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, Log, Options, export
from fxport.exporter.capture.repeated.recorded import Recorded
from tests.blocks import WIDTH, Block, Stack, assert_right, attribute, copies_counted, stack_of

TURNS = {"count": 0}


class Turning(Block):
    """Reads and changes a number that all blocks share."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        TURNS["count"] += 1
        return super().forward(x) * TURNS["count"]


class Keeping(Block):
    """Keeps what it has seen, where the next block reads it."""

    seen: list[float] = []

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        y = super().forward(x) * (1 + len(self.seen))
        self.seen.append(1.0)
        return y


class Drawing(Block):
    """Draws a number in Python."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * random.choice([1.0, 2.0, 3.0])


class ByVariables(Block):
    """Looks at all its attributes at once."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * (1 + vars(self)["index"])


class Asking(Block):
    """Asks for its attributes in a way of its own."""

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__("scale" if name == "factor" else name)

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * self.factor


class WithDefault(Block):
    """Has an attribute that only some blocks have themselves."""

    bonus = 1.0

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * self.bonus


class Writing(Block):
    """Writes to what it is given."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        x.mul_(0.5)
        return super().forward(x)


class Viewing(Block):
    """Gives back the memory that it was given."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x).add_(1) if self.index % 2 else x.view(-1, WIDTH)


class Choosing(Block):
    """Reads one attribute, or another one as that says."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * (self.index if self.scale > 1 else 1)


class Moded(nn.Module):
    """Sets something for one of its blocks."""

    def __init__(self, around: Callable[[], Any]) -> None:
        super().__init__()
        self.stack, self.around = Stack(), around

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.stack.blocks):
            if index == 2:
                with self.around():
                    x = block(x).float()
            else:
                x = block(x)
        return x


class Counting(torch.overrides.TorchFunctionMode):
    """Counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is nn.functional.linear
        return func(*args, **(kwargs or {}))


class Counted(Stack):
    def forward(self, x: Tensor) -> Tensor:
        with Counting() as mode:
            x = super().forward(x)
        return x * mode.count


class Leaving(Stack):
    """Leaves before the last block."""

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks[:-1]:
            x = block(x)
        return x


class Twice(Stack):
    """Goes through its blocks twice, the second time from the end."""

    def forward(self, x: Tensor) -> Tensor:
        for block in [*self.blocks, *reversed(self.blocks)]:
            x = block(x)
        return x


class Closed(Stack):
    """Blocks that reach the weight of another one."""

    def __init__(self) -> None:
        super().__init__()
        first = self.blocks[0]
        for block in self.blocks:
            block.activation = lambda y: y @ first.up.weight


class Moving(Stack):
    """Changes an object between the blocks that they all hold."""

    def __init__(self) -> None:
        super().__init__()
        self.named = {"gain": 0.5}
        for block in self.blocks:
            block.named = self.named

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            self.named["gain"] = 0.5 * (index != 2)
            x = block(x)
        self.named["gain"] = 0.5
        return x


class Reading(Stack):
    """Asks of what its blocks give back, and of the functions that they call."""

    def __init__(self, ask: Callable[[Tensor], float]) -> None:
        super().__init__()
        self.ask = ask
        for block in self.blocks:
            block.activation = lambda x: nn.functional.gelu(x)
            block.own = lambda x: x.add_(1).mul_(2)

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            with mock.patch.object(nn.functional, "gelu", torch.tanh) if index == 2 else nullcontext():
                x = block(x * 1)
            x = x * self.ask(x)
        return x


class Given(Stack):
    """Looks for what belongs to a tensor, or to the call that it is in."""

    def __init__(self, find: Callable[[Tensor], float]) -> None:
        super().__init__()
        for block in self.blocks:
            block.activation = lambda x: x * find(x)

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            factor = 2.0 if index == 2 else 1.0
            x = block(x) * factor
        return x


def factor_of_caller(x: Tensor) -> float:
    frame: Any = sys._getframe()
    while "factor" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals["factor"]


class Replacing(nn.Module):
    """Replaces a method of PyTorch's layers for one of PyTorch's blocks, which no code of the user's is part of."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        made = (nn.TransformerDecoderLayer(WIDTH, 2, WIDTH, batch_first=True) for _ in range(5))
        self.blocks = nn.ModuleList(made)

    def forward(self, x: Tensor) -> Tensor:
        plain = nn.Linear.forward
        for index, block in enumerate(self.blocks):
            other = (lambda layer, y: plain(layer, y) * 2) if index == 2 else plain
            with mock.patch.object(nn.Linear, "forward", other):
                x = block(x, x * 0.5)
        return x


STATES: dict[str, Callable[[], nn.Module]] = {
    "all attributes at once": lambda: stack_of(ByVariables),
    "attributes asked for otherwise": lambda: stack_of(Asking, attribute("scale", 0.5)),
    "a default of the class": lambda: stack_of(WithDefault, attribute("bonus", 3.0)),
    "a write to an argument": lambda: stack_of(Writing),
    "results in the memory of arguments": lambda: stack_of(Viewing),
    "an attribute that another one tells to read": lambda: stack_of(Choosing, attribute("scale", 0.5)),
    "autocast": lambda: Moded(lambda: torch.autocast("cpu", torch.bfloat16)).eval(),
    "gradients": lambda: Moded(torch.no_grad).eval(),
    "a mode that counts calls": lambda: Counted().eval(),
    "blocks that are left out": lambda: Leaving().eval(),
    "blocks that are called twice": lambda: Twice().eval(),
    "weights of other blocks": lambda: Closed().eval(),
    "an object that changes between": lambda: Moving().eval(),
    "writes to a result": lambda: Reading(lambda x: 1.0 + x._version).eval(),
    "views": lambda: Reading(lambda x: 2.0 if x._is_view() else 1.0).eval(),
    "a method that is replaced": lambda: Replacing().eval(),
    "a variable of the caller": lambda: Given(factor_of_caller).eval(),
}


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in STATES.items()])
def test_state_beside_the_blocks(make: Callable[[], nn.Module]) -> None:
    assert_right(make(), torch.randn(3, WIDTH))


@pytest.mark.parametrize("kind", [Turning, Keeping, Drawing])
def test_a_block_that_changes_state_is_not_copied(kind: type[Block]) -> None:
    """Compare what is told of it, and whether it is exported at all, with a capture without copies."""
    told = []
    for reuse in (True, False):
        random.seed(0)
        TURNS["count"] = 0
        Keeping.seen.clear()
        log = Log()
        with copies_counted() as copied:
            try:
                export(stack_of(kind), (torch.randn(3, WIDTH),), log=log, options=Options(reuse=reuse))
            except ExportError:
                told.append("refused")
        assert copied == []
        told.append([(each.rule.id, each.place) for each in log.findings])
    assert told[0] == told[-1]


class Unseen(Block):
    """Reads an attribute of a module of PyTorch's."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * getattr(torch.nn, "fxport_factor", 1.0)


class Setting(Stack):
    """Sets that attribute for one block."""

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            with mock.patch.object(torch.nn, "fxport_factor", 2.0 if index == 2 else 1.0, create=True):
                x = block(x)
        return x


def test_code_of_the_users_own_is_run_once_beside_the_copies() -> None:
    model = Setting()
    model.blocks = stack_of(Unseen).blocks
    assert_right(model.eval(), torch.randn(3, WIDTH))


def test_code_of_the_users_own_without_values_is_captured_once() -> None:
    with torch.device("meta"):
        model = Stack().eval()
    with copies_counted() as copied, suppress(ExportError):  # which says that the weights have no values
        export(model, (torch.randn(3, WIDTH),))
    assert copied == []


def test_copies_that_are_not_proven_are_taken_back() -> None:
    """The last block is compared: where the recorded nodes are not its own, none is copied in the end."""
    of, made = Recorded.is_like, []

    def unlike(self: Recorded, other: Recorded) -> bool:
        made.append(of(self, other))
        return False

    model, x = Stack().eval(), torch.randn(3, WIDTH)
    with mock.patch.object(Recorded, "is_like", unlike):
        assert assert_right(model, x) == ["1", "2", "3"]  # in the trace that was left
    assert made == [True]
