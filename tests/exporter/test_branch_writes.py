"""Buffers and inputs that a branch of `torch.cond` writes to: outputs like those that the model itself writes to."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop

from fxport import ExportError, export
from tests.capture import numbers_of
from tests.running import assert_same, run_session, session_of

Function = Callable[["Counts", Tensor], Tensor]


class Counts(nn.Module):
    """A model of one function, with a sum that it may write to."""

    total: Tensor
    count: Tensor

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.register_buffer("total", torch.arange(8.0).reshape(2, 4))
        self.register_buffer("count", torch.zeros(()))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def one_branch(model: Counts, x: Tensor) -> Tensor:
    def more(a: Tensor) -> Tensor:
        model.total.add_(a.sum(0))
        return a * model.total.sum()

    return torch.cond(x.sum() > 0, more, lambda a: a - 1, (x,)) + model.total.mean()


def either_branch(model: Counts, x: Tensor) -> Tensor:
    def more(a: Tensor) -> Tensor:
        model.count.add_(1)
        model.total[0].mul_(2)
        return a + model.count

    def less(a: Tensor) -> Tensor:
        model.total[1:, :2].copy_(a[:1, :2])
        return a * model.total[1].sum()

    return torch.cond(x.sum() > 0, more, less, (x,))


def before_and_after(model: Counts, x: Tensor) -> Tensor:
    row = model.total[0]
    row.add_(1)

    def more(a: Tensor) -> Tensor:
        row.mul_(a[0])
        return a.clone()

    y = torch.cond(x.sum() > 0, more, lambda a: -a, (x,))
    model.total.sub_(1)
    return y + row


def nested(model: Counts, x: Tensor) -> Tensor:
    def inner(a: Tensor) -> Tensor:
        model.count.sub_(2)
        return a * 2

    def more(a: Tensor) -> Tensor:
        b = torch.cond(a.max() > 1, inner, lambda c: c + model.count, (a,))
        model.count.mul_(3)
        return b

    return torch.cond(x.sum() > 0, more, lambda a: a - model.count, (x,)) + model.count


def named_as_outside(model: Counts, x: Tensor) -> Tensor:
    """PyTorch names the operands of the second condition's branches as what they are given: `getitem`."""
    first = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos() * 1.0, (x,))

    def halved(a: Tensor) -> Tensor:
        model.total[:, 1:3].mul_(0.5)
        return a.sin() + x

    def inner(a: Tensor) -> Tensor:
        return torch.cond(a.sum() > -5, halved, lambda b: b.sort(-1).values * 1.0, (a,)) * 1.0

    return torch.cond(first.sum() > 1, halved, inner, (first,))


def an_input(model: Counts, x: Tensor) -> Tensor:
    def more(a: Tensor) -> Tensor:
        a.mul_(2)
        return a + 1

    return torch.cond(x.sum() > 0, more, lambda a: a - 1, (x,)) + x


@pytest.mark.skipif(numbers_of(torch.__version__) < (2, 12), reason="torch.cond of PyTorch 2.11 refuses writes")
@pytest.mark.parametrize("function", [one_branch, either_branch, before_and_after, nested, named_as_outside, an_input])
def test_as_in_eager(function: Function) -> None:
    torch.manual_seed(0)
    model = Counts(function).eval()
    program = export(model, (torch.rand(3, 4),), dynamic_shapes=({0: "n"},))
    session = session_of(program)
    updates = program.program.state
    assert updates
    for x in (torch.rand(3, 4), -torch.rand(5, 4), torch.rand(2, 4) + 1):
        eager, fed = copy.deepcopy(model), x.clone()
        with torch.no_grad():
            want = [eager(fed)]
        state = {**dict(eager.named_buffers()), "x": fed}
        want += [state[name] for name in updates.values()]
        assert_same(run_session(session, program, (x,)), want)


def test_a_loop_has_no_place_for_it() -> None:
    def loops(model: Counts, x: Tensor) -> Tensor:
        def turn(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
            model.count[...].add_(1)
            return i + 1, a + model.count

        return while_loop(lambda i, a: i < 3, turn, (torch.tensor(0), x))[1]

    with pytest.raises(ExportError) as raised:
        export(Counts(loops).eval(), (torch.rand(3, 4),))
    assert {finding.rule.id for finding in raised.value.log.findings} & {"FXP1001", "FXP1003"}  # 2.13, and before
