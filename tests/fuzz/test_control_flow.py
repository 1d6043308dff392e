"""Programs of control flow within control flow, made at random, against eager PyTorch at three inputs each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from fxport import export
from fxport.exporter.capture.float64 import wide_types
from tests.conftest import LONG, QUIET
from tests.running import assert_same, run_session, session_of

Tree = tuple[Any, ...]
DEPTH, PROGRAMS = 3, 8
PARTS, OF_A_PART = 10, 100
"""Of a long run: 1,000 programs, in parts that each keep within the time limit of a test."""

ROUNDING = 1e-4  # more than that is no rounding of values near 1

POINTWISE: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "sin": lambda model, a: a.sin(),
    "tanh of linear": lambda model, a: torch.tanh(model.linear(a)),
    "shift": lambda model, a: a * 0.5 - model.shift,
    "centre": lambda model, a: a - a.mean(-1, keepdim=True),
    "clip": lambda model, a: torch.where(a > 0.5, a.cos(), a + 0.25),
    "literal": lambda model, a: a * torch.tensor([0.5, 1.0, -1.0, 0.25]),
    "in place": lambda model, a: a.clone().mul_(0.5).add_(model.shift),
    "a part in place": lambda model, a: _with_part(a),
    "custom op that writes": lambda model, a: _raised(a),
    "sort": lambda model, a: a.sort(-1).values,
    "attribute": lambda model, a: a * model.scales["half"] + model.offset[1],
}
"""From [4] or [n, 4] to the same sizes; values stay small."""


@torch.library.custom_op("fxport_fuzz::raise_by", mutates_args=("x",))
def raise_by(x: Tensor, by: float) -> None:
    x.add_(by)


def _raised(a: Tensor) -> Tensor:
    b = a * 0.5
    raise_by(b, 0.25)
    return b


def _with_part(a: Tensor) -> Tensor:
    b = a.clone()
    b[..., 1:3].mul_(0.5).add_(0.25)
    return b


def trees(depth: int) -> st.SearchStrategy[Tree]:
    leaf = st.tuples(st.just("op"), st.sampled_from(sorted(POINTWISE)))
    if depth == 0:
        return leaf
    inner = trees(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(st.just("then"), inner, inner),
        st.tuples(st.just("cond"), st.sampled_from(sorted(WRITES)), inner, inner),
        st.tuples(st.just("while"), st.integers(0, 3), st.booleans(), inner),
        st.tuples(st.just("scan"), st.booleans(), inner),
        st.tuples(st.just("map"), inner),
        st.tuples(st.just("region"), inner),
    )


def run(tree: Tree, model: Any, a: Tensor) -> Tensor:
    return FORMS[tree[0]](tree, model, a)


def _op(tree: Tree, model: Any, a: Tensor) -> Tensor:
    return POINTWISE[tree[1]](model, a)


def _then(tree: Tree, model: Any, a: Tensor) -> Tensor:
    return run(tree[2], model, run(tree[1], model, a))


WRITES: dict[str, Callable[[Any, Tensor], object]] = {
    "none": lambda model, b: None,
    "a buffer": lambda model, b: model.seen.mul_(0.5).add_(1),
    "a part of one": lambda model, b: model.state[1:3].mul_(0.5).add_(b.mean()),
}
"""What the first branch of a condition writes to beside its result."""


def _cond(tree: Tree, model: Any, a: Tensor) -> Tensor:
    _, writes, one, other = tree
    outer = a * 0.5

    def first(b: Tensor) -> Tensor:
        WRITES[writes](model, b)
        return run(one, model, b) + outer

    return torch.cond(a.sum() > 0.125, first, lambda b: run(other, model, b) * 1.0, (a,))


def _while(tree: Tree, model: Any, a: Tensor) -> Tensor:
    """With `by_data`, there is no turn where the values add up to little."""
    _, turns, by_data, inner = tree
    limit = (a.sum() > 0.125).to(torch.int64) * turns if by_data else turns
    return while_loop(lambda i, b: i < limit, lambda i, b: (i + 1, run(inner, model, b)), (torch.tensor(0), a))[1]


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
    each: Any = lambda row: run(tree[1], model, row) * 1.0  # noqa: E731  # whose type PyTorch says otherwise
    rows = torch_map(each, _rows(a))
    return rows if a.dim() == 2 else rows[0]


def _region(tree: Tree, model: Any, a: Tensor) -> Tensor:
    region: Any = torch.compiler.nested_compile_region(lambda b: run(tree[1], model, b) * 0.5)
    return region(region(a))


FORMS: dict[str, Callable[[Tree, Any, Tensor], Tensor]] = {
    "op": _op,
    "then": _then,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "map": _map,
    "region": _region,
}


BODIES = ("cond", "while", "scan", "map")


def possible(tree: Tree, inside: bool = False, body: bool = False) -> Tree:
    """The tree without writes in what a loop repeats: PyTorch has them in branches only. And it has no regions that are
    made inside of a body."""
    kind, *rest = tree
    inside_now = inside or kind in ("while", "scan", "map")
    parts: list[Any] = [
        possible(each, inside_now, body or kind in BODIES) if isinstance(each, tuple) else each for each in rest
    ]
    if kind == "cond" and inside:
        parts[0] = "none"
    return tuple(parts[0]) if kind == "region" and body else (kind, *parts)


class Program(nn.Module):
    def __init__(self, tree: Tree) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0) * 0.1)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("state", torch.ones(4))
        self.scales, self.offset = {"half": 0.5}, (0.25, 0.125)
        self.tree = tree

    def forward(self, x: Tensor) -> Tensor:
        return run(self.tree, self, x)


def inputs() -> list[tuple[Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(n, 4, generator=generator) + shift,) for n, shift in ((3, 0.5), (5, -0.5), (2, 0.0))]


PARTS_AND_PROGRAMS = (PARTS, OF_A_PART) if settings().max_examples == LONG else (1, PROGRAMS)


@pytest.mark.parametrize("part", range(PARTS_AND_PROGRAMS[0]))
@settings(max_examples=PARTS_AND_PROGRAMS[1], suppress_health_check=QUIET)
@given(tree=trees(DEPTH).map(possible))
def test_programs(part: int, tree: Tree) -> None:
    model, cases = Program(tree).eval(), inputs()
    program = export(model, (cases[0][0].clone(),), dynamic_shapes=({0: "n"},))
    session, names = session_of(program), [str(value.name) for value in program.model.graph.outputs]
    for case in cases:
        actual, expected = run_session(session, program, case), _results(Program(tree).eval(), case, names)
        try:
            assert_same(actual, expected)
        except AssertionError as mismatch:
            if not _within_rounding(actual, expected, _exact_results(tree, case, names)):
                raise mismatch


def _results(model: Program, case: tuple[Tensor], names: list[str]) -> list[Tensor]:
    """What eager PyTorch gives, and the buffers that the exported model gives beside it."""
    with torch.no_grad():
        result = model(*case)
    left = {f"{name}.updated": buffer for name, buffer in model.named_buffers()}
    return [result, *(left[name] for name in names[1:])]


def _exact_results(tree: Tree, case: tuple[Tensor], names: list[str]) -> list[Tensor]:
    """The same in float64 throughout."""
    with wide_types():
        return _results(Program(tree).eval().double(), (case[0].double(),), names)


def _within_rounding(actual: list[Tensor], expected: list[Tensor], exact: list[Tensor]) -> bool:
    """Sums of many turns differ in their last digits: off from float64 by at most twice what eager PyTorch is off.

    A float64 run that is far from eager took another branch, and says nothing.
    """
    for got, want, truth in zip(actual, expected, exact, strict=True):
        if got.dtype != want.dtype or got.shape != want.shape:
            return False
        if torch.allclose(got, want, rtol=1.3e-6, atol=1e-5):
            continue
        own, error = ((each.double() - truth).abs().max().item() for each in (want, got))
        if not (own < ROUNDING and error <= 2 * own):
            return False
    return True
