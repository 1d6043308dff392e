"""Arithmetic of sizes that was done before gives what PyTorch gives, as a number of its own."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import pytest
import sympy
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from fxport.exporter.capture.sizes.remembered import arithmetic_remembered

OPERATIONS = tuple(getattr(operator, name) for name in ("add", "sub", "mul", "eq", "ne", "ge", "gt", "le", "lt"))


def sizes(*numbers: int) -> list[Any]:
    """Symbolic sizes, with these for an example."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(numbers))
    return [*mode.from_tensor(torch.empty(numbers), symbolic_context=context).shape]


@pytest.fixture
def two() -> Iterator[list[Any]]:
    found = sizes(5, 7)
    with arithmetic_remembered():
        yield found


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_results_are_pytorchs_and_no_two_share_a_number(operation: Any) -> None:
    a, b = sizes(5, 7)
    pairs = [(a, b), (b, a), (a, a), (a * 2 + b, b), (a, 3), (3, a), (a + b, a - b)]
    want = [operation(*pair) for pair in pairs]
    with arithmetic_remembered():
        first, second = ([operation(*pair) for pair in pairs] for _ in range(2))
    for one, other, known in zip(first, second, want, strict=True):
        if isinstance(known, bool):
            assert one is other is known
            continue
        assert one.node is not other.node
        for each in (one, other):
            assert vars(each.node).keys() == vars(known.node).keys()
            got, like = each.node, known.node
            assert (got.expr, got.hint, got.pytype, got.constant) == (like.expr, like.hint, like.pytype, like.constant)
            assert got.maybe_as_int() == like.maybe_as_int()


def test_what_is_done_to_a_result_is_not_done_to_the_next(two: list[Any]) -> None:
    a, b = two
    (a * b).node._expr = sympy.Integer(0)
    assert str((a * b).node.expr) == str((b * a).node.expr) != "0"


def test_symbols_that_become_equal_make_other_results(two: list[Any]) -> None:
    a, b = sizes(6, 6)
    before, sums = a - b, a + b
    assert before.node.expr != 0
    assert bool(a == b)  # from here on they are one symbol
    assert (a - b).node.expr == 0
    assert len((a + b).node.expr.free_symbols) == 1
    assert sums.node.expr == (a + b).node.expr
    assert (a - b).node.maybe_as_int() == before.node.maybe_as_int() == 0


def test_examples_keep_apart_what_has_one_name(two: list[Any]) -> None:
    """Two environments call their first symbol alike."""
    a, other = two[0], sizes(9, 7)[0]
    assert ((a + 1).node.hint, (other + 1).node.hint) == (6, 10)


def test_fractions_and_data_are_left_to_pytorch(two: list[Any]) -> None:
    a = two[0]
    assert type(a * 2.0) is type(a * 2.0) is torch.SymFloat
    data = a.node.shape_env.create_unbacked_symint()
    assert (data + a).node.hint is None
    assert (data + a).node.expr == (a + data).node.expr
