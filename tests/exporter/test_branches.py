"""`if` on the value of a tensor: a cond in the captured graph, and equal to eager PyTorch on both ways."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import rules
from fxport.exporter.capture.control_flow.function import rewritten
from tests.running import assert_same, run_exported, run_session, session_of


class Rebound(nn.Module):
    """A name that one branch binds anew, with `not` in the test."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if not mask.all():
            x = x.masked_fill(~mask, 0.5)
        return x * 2


class Written(nn.Module):
    """Writes to a tensor of before, of which there is a view: by an index, by a method, by `+=`."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        out = torch.zeros_like(x)
        view = out[:, 0]
        for number, expert in enumerate(self.experts):
            chosen = mask[:, number]
            if chosen.any():
                out[chosen] = expert(x[chosen])
                out.mul_(2)
                out += 1
        return out, view


class Early(nn.Module):
    """Two early returns, a name that the rest binds anew, a parameter in each branch."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = x * 3
        if mask.any() and x.sum() > 0:
            return self.one(y)
        y = y + 1
        if bool(mask[0, 0]) or y.sum() < -100:
            return y
        return self.two(y)


class Both(nn.Module):
    """A name that both branches bind, in an `if` within an `if`; a test of two numbers."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.sum() > 2:
            if x[0, 0] > 0:
                y = x + 1
                y = y * 2
            else:
                y = x - 1
            z = y * y
        else:
            z = -x
        return z


class Expressions(nn.Module):
    """`a if test else b`, bound and returned."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        scale = x.abs().max() if mask.any() else x.sum()
        return x * scale if mask.all() else x - scale


class Refusing(nn.Module):
    """A check of the input's values."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if (mask.sum(1) > 3).any():
            raise ValueError("too many")
        return x * mask


class Freeing(nn.Module):
    """A name that is freed within its branch, and the same result laid out in two ways."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.any():
            twice = x * 2
            y = twice + 1
            del twice
        else:
            y = x.t().contiguous().t()
        return y * 2


X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])
MASKS = (torch.ones(2, 3), torch.zeros(2, 3), torch.tensor([[0.0, 1, 0], [1, 0, 0]]), torch.tensor([[1.0, 0, 0]] * 2))
CASES = [(sign * X, mask.bool()) for mask in MASKS for sign in (1, -1)]


@pytest.mark.parametrize(
    "model", [Rebound, Written, Early, Both, Expressions, Refusing, Freeing], ids=lambda each: each.__name__
)
def test_both_ways(model: type[nn.Module]) -> None:
    torch.manual_seed(0)
    module = model().eval()
    more = [(x.repeat(2, 1), mask.repeat(2, 1)) for x, mask in CASES[::3]]
    shapes = {"x": {0: "n"}, "mask": {0: "n"}}
    for case, result in zip([*CASES, *more], run_exported(module, [*CASES, *more], dynamic_shapes=shapes), strict=True):
        expected = module(*(each.clone() for each in case))
        assert_same(result, expected if isinstance(expected, tuple) else (expected,))


class Elsewhere:
    """No module."""

    seen = False


class Keeping(nn.Module):
    """What it keeps in an object that is no module cannot be undone."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere = Elsewhere()

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.elsewhere.seen = True
        return x


@pytest.mark.parametrize("model", [Keeping])
def test_what_is_no_cond_is_said(model: type[nn.Module]) -> None:
    with pytest.raises(ExportError) as caught:
        export(model(), (X,))
    assert [finding.rule for finding in caught.value.log.findings] == [rules.DATA_DEPENDENT_CONTROL_FLOW]


def test_a_branch_that_was_made_a_function_is_left_alone() -> None:
    """Python finds the source of the function around it, at lines which are others."""
    code = Rebound.forward.__code__
    lines = set(range(code.co_firstlineno, code.co_firstlineno + 4))
    reasons: dict[int, str] = {}
    assert rewritten(code, lines, set(), True, reasons) is not None
    assert not reasons
    assert rewritten(code.replace(co_name="_if_0_then"), lines, set(), True, reasons) is None
    assert reasons.keys() == lines


class Input(nn.Module):
    """It writes to an input, on one way only, and returns from it."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            x += 1
            return x
        return x * 2


@pytest.mark.parametrize("sign", [1, -1])
def test_an_input_that_one_branch_writes_to(sign: int) -> None:
    """The input is an output too, with what it then holds."""
    program = export(Input(), (X.clone(),))
    given, expected = (sign * X).clone(), (sign * X).clone()
    result = Input()(expected)
    assert_same(run_session(session_of(program), program, (given,)), (result, expected))
