"""Sizes that data decide are broadcast as in eager PyTorch, also where one of them turns out to be 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fxport import export
from tests.running import assert_same, run_session, session_of

Function = Callable[[Tensor, Tensor], Any]


def _size(x: Tensor) -> Tensor:
    return torch.ones(1) * x.shape[0]


def _sized(function: Function) -> Function:
    """Return the results for the distinct values of both inputs, with the sizes of all."""

    def run(x: Tensor, y: Tensor) -> object:
        a, b = x.unique(), y.unique()
        result = function(a, b)
        results: tuple[Tensor, ...] = result if isinstance(result, tuple) else (result,)
        return (*results, *map(_size, results), _size(a), _size(b))

    return run


def _in_turn(a: Tensor, b: Tensor) -> Tensor:
    return torch.cat([a * b + a, b / a], 0) * 2


def _in_place(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).copy_(b).add_(a)


def _places(x: Tensor) -> Tensor:
    return (x > 0).nonzero().flatten()


FUNCTIONS: dict[str, Function] = {
    "sum": lambda a, b: a + b,
    "in turn": _in_turn,
    "in place": _in_place,
    "where": lambda a, b: torch.where(a > 2, b, 0.0),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25),
    "three": lambda a, b: torch.addcmul(a, b, a),
    "complex": lambda a, b: torch.complex(a, b).abs(),
    "matmul": lambda a, b: a[:, None, None].expand(-1, 2, 3) @ b[:, None, None].expand(-1, 3, 2),
    "einsum": lambda a, b: torch.einsum("b,b->b", a, b),
    "broadcast_tensors": lambda a, b: torch.broadcast_tensors(a, b),
    "two axes": lambda a, b: (a[:, None] * b).softmax(0) + a[:, None],
    "indices": lambda a, b: torch.arange(100.0).view(10, 10)[a.long(), b.long()],
    "indices of non-zeros": lambda a, b: torch.arange(100.0).view(10, 10)[_places(a), _places(b)],
    "writes at non-zeros": lambda a, b: torch.zeros(10, 10).index_put(
        (_places(a), _places(b)), torch.ones(()), accumulate=True
    ),
    "pieces": lambda a, b: functional.pad(a - b, (1, 0)).cumsum(0),
}
"""By a name, what is computed of two vectors."""

ONE, THREE, OTHERS = torch.tensor([4.0, 4.0]), torch.tensor([1.0, 2.0, 3.0, 1.0]), torch.tensor([5.0, 6.0, 5.0, 7.0])


DYNAMIC = {"x": {0: "n"}, "y": {0: "k"}}


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> object:
        return self.function(x, y)


def _assert_right(model: Applied, example: tuple[Tensor, Tensor], *others: tuple[Tensor, Tensor]) -> None:
    program = export(model, example, dynamic_shapes=DYNAMIC)
    session = session_of(program)
    for inputs in (example, *others):
        assert_same(run_session(session, program, inputs), model(*inputs))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_two_sizes_of_data(function: Function) -> None:
    _assert_right(Applied(_sized(function)), (THREE, OTHERS), (THREE, ONE), (ONE, ONE), (torch.ones(0), ONE))


@pytest.mark.parametrize("size", [1, 3])
def test_a_size_of_data_and_a_dynamic_one(size: int) -> None:
    def added(x: Tensor, y: Tensor) -> object:
        a = x.unique()
        return a + y, _size(a), _size(a + y), _size(y)

    others = [(THREE, torch.ones(3)), (THREE, torch.ones(1)), (ONE, torch.ones(5)), (ONE, torch.ones(1))]
    _assert_right(Applied(added), (THREE, torch.ones(size)), *others)


def test_a_size_of_data_and_a_number() -> None:
    def added(x: Tensor, y: Tensor) -> object:
        a = x.unique()
        return a + torch.arange(3.0), _size(a), a.expand(3), _size(a.expand(3)), y

    _assert_right(Applied(added), (THREE, OTHERS), (ONE, OTHERS))


@pytest.mark.parametrize("size", [1, 3])
def test_what_is_decided_by_a_size_of_data_is_refused(size: int) -> None:
    def first(x: Tensor, y: Tensor) -> object:
        return (x.unique() + y).split(5)[1]

    with pytest.raises(Exception, match="FXP1002"):
        export(Applied(first), (THREE, torch.ones(size)), dynamic_shapes=DYNAMIC)


def test_a_check_of_the_users_makes_sizes_equal() -> None:
    def first(x: Tensor, y: Tensor) -> object:
        a = x.unique()
        torch._check(a.shape[0] == y.shape[0])
        return (a + y).view(y.shape[0], 1), _size(a)

    _assert_right(Applied(first), (THREE, torch.ones(3)), (torch.arange(5.0), torch.ones(5)))
