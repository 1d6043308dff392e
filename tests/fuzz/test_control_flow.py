"""Programs of control flow within control flow, made at random, against eager PyTorch at three inputs each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from tests.conftest import LONG
from tests.running import assert_same, run_exported

Tree = tuple[Any, ...]
DEPTH, PROGRAMS, MANY = 3, 30, 1000

POINTWISE: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "sin": lambda model, a: a.sin(),
    "tanh of linear": lambda model, a: torch.tanh(model.linear(a)),
    "shift": lambda model, a: a * 0.5 - model.shift,
    "centre": lambda model, a: a - a.mean(-1, keepdim=True),
    "clip": lambda model, a: torch.where(a > 0.5, a.cos(), a + 0.25),
    "literal": lambda model, a: a * torch.tensor([0.5, 1.0, -1.0, 0.25]),
    "in place": lambda model, a: a.clone().mul_(0.5).add_(model.shift),
}
"""From [4] or [n, 4] to the same sizes; values stay small."""


def trees(depth: int) -> st.SearchStrategy[Tree]:
    leaf = st.tuples(st.just("op"), st.sampled_from(sorted(POINTWISE)))
    if depth == 0:
        return leaf
    inner = trees(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(st.just("then"), inner, inner),
        st.tuples(st.just("cond"), st.booleans(), inner, inner),
        st.tuples(st.just("while"), st.integers(0, 3), inner),
        st.tuples(st.just("scan"), st.booleans(), inner),
        st.tuples(st.just("map"), inner),
    )


def run(tree: Tree, model: Any, a: Tensor) -> Tensor:
    return FORMS[tree[0]](tree, model, a)


def _op(tree: Tree, model: Any, a: Tensor) -> Tensor:
    return POINTWISE[tree[1]](model, a)


def _then(tree: Tree, model: Any, a: Tensor) -> Tensor:
    return run(tree[2], model, run(tree[1], model, a))


def _cond(tree: Tree, model: Any, a: Tensor) -> Tensor:
    """With `writes`, the first branch changes a buffer."""
    _, writes, one, other = tree
    outer = a * 0.5

    def first(b: Tensor) -> Tensor:
        if writes:
            model.seen.mul_(0.5).add_(1)
        return run(one, model, b) + outer

    return torch.cond(a.sum() > 0, first, lambda b: run(other, model, b) * 1.0, (a,))


def _while(tree: Tree, model: Any, a: Tensor) -> Tensor:
    _, turns, inner = tree
    return while_loop(lambda i, b: i < turns, lambda i, b: (i + 1, run(inner, model, b)), (torch.tensor(0), a))[1]


def _rows(a: Tensor) -> Tensor:
    return a if a.dim() == 2 else torch.stack([a, a + 1])


def _scan(tree: Tree, model: Any, a: Tensor) -> Tensor:
    _, reverse, inner = tree

    def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.tanh(run(inner, model, carry + row))
        return new, new * 2

    last, steps = scan(step, torch.zeros(4), _rows(a), reverse=reverse)
    return steps + last if a.dim() == 2 else steps[0] + last


def _map(tree: Tree, model: Any, a: Tensor) -> Tensor:
    rows = torch_map(lambda row: run(tree[1], model, row) * 1.0, _rows(a))
    return rows if a.dim() == 2 else rows[0]


FORMS: dict[str, Callable[[Tree, Any, Tensor], Tensor]] = {
    "op": _op,
    "then": _then,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "map": _map,
}


def writes_in(tree: Tree, inside: bool = False) -> Tree:
    """The tree without writes in what a loop repeats: PyTorch has them in branches only."""
    kind, *rest = tree
    inside_now = inside or kind in ("while", "scan", "map")
    parts = [writes_in(each, inside_now) if isinstance(each, tuple) else each for each in rest]
    if kind == "cond" and inside:
        parts[0] = False
    return (kind, *parts)


class Program(nn.Module):
    def __init__(self, tree: Tree) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0) * 0.1)
        self.register_buffer("seen", torch.zeros(()))
        self.tree = tree

    def forward(self, x: Tensor) -> Tensor:
        return run(self.tree, self, x)


def inputs() -> list[tuple[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(n, 4, generator=generator) + shift,) for n, shift in ((3, 0.5), (5, -0.5), (2, 0.0))]


@settings(max_examples=MANY if settings().max_examples == LONG else PROGRAMS, suppress_health_check=list(HealthCheck))
@given(trees(DEPTH).map(writes_in))
def test_programs(tree: Tree) -> None:
    model, cases = Program(tree).eval(), inputs()
    found = run_exported(model, cases, dynamic_shapes=({0: "n"},))
    for case, got in zip(cases, found, strict=True):
        fresh = Program(tree).eval()
        with torch.no_grad():
            want = [fresh(*case)]
        assert_same(got, [*want, fresh.seen][: len(got)])
