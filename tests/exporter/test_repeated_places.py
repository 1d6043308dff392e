"""Repeated blocks that know which of them they are, or what moves on from one to the next: none is copied."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import Log, Options, export
from tests.blocks import WIDTH, Block, Stack, assert_right, stack_of
from tests.running import assert_same, run_session, session_of

SPECIAL: list[Any] = []
TABLE: dict[Any, float] = {}
WEAK: weakref.WeakKeyDictionary[nn.Module, float] = weakref.WeakKeyDictionary()


class Known(Block):
    """Asks who it is, in a way that a class says."""

    def factor(self) -> float:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x) * self.factor()


class ByIdentity(Known):
    def factor(self) -> float:
        return 2.0 if self is SPECIAL[0] else 1.0


class ByItself(Known):
    def factor(self) -> float:
        return TABLE.get(self, 1.0)


class ByNumber(Known):
    def factor(self) -> float:
        return TABLE.get(id(self), 1.0)


class ByWeakKey(Known):
    def factor(self) -> float:
        return WEAK.get(self, 1.0)


class ByParent(Known):
    def factor(self) -> float:
        return 2.0 if self.parent().blocks[2] is self else 1.0


class Remembering(Known):
    @functools.lru_cache  # noqa: B019  # that it outlives the block is what is tried
    def remembered(self) -> float:
        return self.bonus

    def factor(self) -> float:
        return self.remembered()


class InSlots(Known):
    __slots__ = ("bonus",)

    def factor(self) -> float:
        return self.bonus


class InOrder(Known):
    def factor(self) -> float:
        result = 1.0
        for name in vars(self):
            result = result * 0.5 if name == "one" else result + 0.5 if name == "two" else result
        return result


class InVariables(Known):
    def factor(self) -> float:
        return self.__dict__.get("bonus", 1.0)


class InBranch(Known):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        y = Block.forward(self, x)
        return torch.cond(x.sum() > 0, lambda y: y * self.bonus, lambda y: y + self.bonus, (y,))


class Frozen(Known):
    def factor(self) -> float:
        return 1.0 if self.up.weight.requires_grad else 2.0


class WithGradient(Known):
    def factor(self) -> float:
        return 1.0 if self.up.weight.grad is None else 2.0


class Advancing(Known):
    def factor(self) -> float:
        return next(SPECIAL[0])


class InEnvironment(Known):
    def factor(self) -> float:
        os.environ["FXPORT_TURN"] = str(int(os.environ["FXPORT_TURN"]) + 1)
        return float(os.environ["FXPORT_TURN"])


def known(model: Stack) -> None:
    """Tell the third block apart in all of these ways."""
    third = model.blocks[2]
    SPECIAL[:] = [third]
    TABLE.clear()
    TABLE.update({third: 2.0, id(third): 2.0})
    WEAK[third] = 2.0
    for block in model.blocks:
        block.parent = weakref.ref(model)


def remembered(model: Stack) -> None:
    for block in model.blocks:
        block.bonus = 2.0 if block is model.blocks[2] else 1.0
        if isinstance(block, Remembering):
            block.remembered()
            block.bonus = 1.0


def ordered(model: Stack) -> None:
    for block in model.blocks:
        for name in ("one", "two") if block is model.blocks[2] else ("two", "one"):
            setattr(block, name, 1)


def frozen(model: Stack) -> None:
    model.blocks[2].up.weight.requires_grad_(False)


def with_gradient(model: Stack) -> None:
    model.blocks[2].up.weight.grad = torch.ones(WIDTH, WIDTH)


PLACES: dict[type[Block], Callable[[Stack], object]] = {
    **dict.fromkeys((ByIdentity, ByItself, ByNumber, ByWeakKey, ByParent), known),
    **dict.fromkeys((Remembering, InSlots, InVariables), remembered),
    InOrder: ordered,
    Frozen: frozen,
    WithGradient: with_gradient,
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_block_that_knows_its_place(kind: type[Block]) -> None:
    assert_right(stack_of(kind, PLACES[kind]), torch.randn(3, WIDTH))


def test_a_branch_that_dynamo_reads_is_captured_as_without_copies() -> None:
    told = []
    for reuse in (True, False):
        log = Log()
        export(stack_of(InBranch, remembered), (torch.randn(3, WIDTH),), log=log, options=Options(reuse=reuse))
        told.append([each.rule.id for each in log.findings])
    assert told[0] == told[1]


def test_a_generator_that_advances() -> None:
    model, x = stack_of(Advancing), torch.randn(3, WIDTH)
    turns = [1.0, 1.0, 3.0, 1.0, 1.0]
    SPECIAL[:] = [(each for each in turns)]
    want = model(x)
    SPECIAL[:] = [(each for each in turns)]
    program = export(model, (x,))
    assert_same(run_session(session_of(program), program, (x,)), [want])


def test_a_variable_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXPORT_TURN", "0")
    model, x = stack_of(InEnvironment), torch.randn(3, WIDTH)
    program = export(model, (x,))
    monkeypatch.setenv("FXPORT_TURN", "0")
    assert_same(run_session(session_of(program), program, (x,)), [model(x)])
