"""Autocast around and inside of control flow: the casts that eager PyTorch makes, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree as pytree

from tests.running import assert_same, run_exported

HALF = torch.bfloat16


class Run(nn.Module):
    """A model that is one function of a layer and the input."""

    def __init__(self, function: Callable[[nn.Linear, Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.linear, x)


def cast(dtype: torch.dtype = HALF) -> Any:
    return torch.autocast("cpu", dtype=dtype)


def around_a_condition(linear: nn.Linear, x: Tensor) -> Tensor:
    with cast():
        return torch.cond(x.sum() > 0, lambda a: linear(a), lambda a: a @ torch.eye(4), (x,))


def in_a_branch(linear: nn.Linear, x: Tensor) -> Tensor:
    def halved(a: Tensor) -> Tensor:
        with cast():
            return linear(a).float()

    return torch.cond(x.sum() > 0, halved, lambda a: linear(a), (x,))


def in_turns(linear: nn.Linear, x: Tensor) -> Tensor:
    def turn(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        with cast():
            return i + 1, linear(a).float()

    return while_loop(lambda i, a: i < 3, turn, (torch.tensor(0), x))[1]


def in_steps(linear: nn.Linear, x: Tensor) -> Any:
    def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        with cast():
            new = linear(carry + row)
        return new.float(), new * 2

    return scan(step, torch.zeros(4), x)


def around_a_map(linear: nn.Linear, x: Tensor) -> Tensor:
    with cast(torch.float16):
        each: Any = lambda row: linear(row)  # noqa: E731  # whose type PyTorch says otherwise
        return torch_map(each, x)


@pytest.mark.parametrize(
    "function",
    [around_a_condition, in_a_branch, in_turns, in_steps, around_a_map],
    ids=lambda function: function.__name__,
)
def test_autocast(function: Callable[[nn.Linear, Tensor], Any]) -> None:
    torch.manual_seed(0)
    model = Run(function).eval()
    cases = [(torch.randn(3, 4) + 1,), (torch.randn(5, 4) - 1,)]
    for case, got in zip(cases, run_exported(model, cases, dynamic_shapes=({0: "n"},)), strict=True):
        with torch.no_grad():
            expected = pytree.tree_leaves(model(*case))
        assert_same(got, expected, tol=(2e-2, 2e-2))  # half precision is rounded in another order
