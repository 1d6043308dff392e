"""Higher-order control flow against eager PyTorch: both branches, 0, 1 and n turns, captured values, other sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch._dynamo.config as dynamo_config
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop, while_loop_stack_output_op
from torch.export import Dim
from torch.utils import _pytree as pytree

from fxport import Options, export
from fxport.exporter.pipeline.options import DEFAULT_OPSET
from tests.running import assert_same, run_exported, run_session, session_of

AUTO = Dim.AUTO


class Cell(nn.Module):
    """Something with parameters and a buffer, for bodies to capture."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.linear(x)) - self.shift


class Run(nn.Module):
    """A model that is one function of a `Cell` and the inputs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.cell = Cell()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(self.cell, *inputs)


@dataclass(frozen=True)
class Row:
    """A function, the inputs of each run of it (the first is the export's example), and what is dynamic."""

    function: Callable[..., Any]
    cases: tuple[tuple[Any, ...], ...]
    dynamic: tuple[Any, ...] | None = None


def t(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


# cond -----------------------------------------------------------------------------------------------------------------


def cond_captures(cell: Cell, x: Tensor, y: Tensor) -> Tensor:
    twice = x * 2
    return torch.cond(x.sum() > 0, lambda a: cell(a) + twice, lambda a: a - cell.shift + y[0], (x,))


def cond_on_size(cell: Cell, x: Tensor) -> Tensor:
    return torch.cond(x.shape[0] > 4, lambda a: a[:2] + 1, lambda a: a[:3].sin(), (x,)) * 2


def cond_nested(cell: Cell, x: Tensor) -> Tensor:
    def inner(a: Tensor) -> Tensor:
        return torch.cond(a.max() > 1, lambda b: b * x.shape[0], lambda b: cell(b), (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: -a, (x,))


def cond_several_results(cell: Cell, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.cond(
        x.sum() > 0,
        lambda a: (a + 1, a.argmax(), a > 0),
        lambda a: (cell(a), a.argmin(), a < 0),
        (x,),
    )


def cond_returns_outer_values(cell: Cell, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return torch.cond(x.sum() > 0, lambda a, b: (a.clone(), a.clone()), lambda a, b: (b.clone(), a + b), (x, y))


def cond_literals(cell: Cell, x: Tensor) -> Tensor:
    return torch.cond(
        x.sum() > 0, lambda a: a * torch.tensor([1.0, 2.0, 3.0, 4.0]), lambda a: a + torch.tensor(2.0), (x,)
    )


# while_loop -----------------------------------------------------------------------------------------------------------


def while_captures(cell: Cell, x: Tensor, turns: Tensor) -> Any:
    return while_loop(lambda i, a: i < turns, lambda i, a: (i + 1, cell(a) + a.shape[0]), (torch.tensor(0), x))


def while_counts(cell: Cell, x: Tensor) -> Any:
    return while_loop(lambda i, a: i < x.shape[0], lambda i, a: (i + 1, a + i), (0, x))


def while_uses_its_count(cell: Cell, x: Tensor) -> Tensor:
    count, _ = while_loop(lambda i, a: i < 20, lambda i, a: (i + 2, a + 1), (x.shape[0], x))
    return x + count


def while_nested(cell: Cell, x: Tensor, turns: Tensor) -> Any:
    def body(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
        _, inner = while_loop(lambda j, b: j < i, lambda j, b: (j + 1, cell(b)), (torch.zeros_like(i), a))
        return i + 1, torch.cond(inner.sum() > 0, lambda c: c * 0.5, lambda c: c - cell.shift, (inner,))

    return while_loop(lambda i, a: i < turns, body, (torch.zeros_like(turns), x))


def while_stacks(cell: Cell, x: Tensor, turns: Tensor) -> Any:
    """while_loop_stack_output, which the gradient of a while_loop brings: what each turn carried on, stacked."""
    return while_loop_stack_output_op(
        lambda i, a, n: i < n, lambda i, a, n: (i + 1, a.sin() + i), (torch.zeros_like(turns), x), (turns,)
    )


def while_swaps(cell: Cell, x: Tensor, y: Tensor, turns: Tensor) -> Any:
    return while_loop(
        lambda i, a, b: i < turns, lambda i, a, b: (i + 1, b.clone(), a.clone()), (torch.zeros_like(turns), x, y)
    )


# scan and map ---------------------------------------------------------------------------------------------------------


def scan_captures(cell: Cell, x: Tensor, h: Tensor) -> Any:
    def step(carry: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
        new = cell(each) + carry
        return new, new.sin()

    return scan(step, h, x)


def scan_axis_reversed(cell: Cell, x: Tensor, h: Tensor) -> Any:
    def step(carry: Tensor, each: Tensor) -> tuple[Tensor, Tensor]:
        return carry * 0.5 + each, carry.sum(-1)

    return scan(step, h, x, dim=1, reverse=True)


def scan_trees(cell: Cell, x: Tensor, y: Tensor) -> Any:
    def step(carry: dict[str, Tensor], each: tuple[Tensor, Tensor]) -> Any:
        a, b = each
        return {"n": carry["n"] + 1, "s": carry["s"] + a.sum() * b}, {"n": carry["n"].clone(), "p": a * b}

    return scan(step, {"n": torch.zeros((), dtype=torch.int64), "s": torch.zeros(4)}, (x, y))


def map_captures(cell: Cell, x: Tensor, y: Tensor) -> Tensor:
    return torch_map(lambda each, other: (cell(each) + other).sum(0), x, y)


def map_nested(cell: Cell, x: Tensor) -> Tensor:
    return torch_map(lambda row: torch_map(lambda each: cell(each) * 2, row), x)


def sums(cell: Cell, x: Tensor) -> Tensor:
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")


def state_space(cell: Cell, decay: Tensor, x: Tensor) -> Any:
    """h[t] = decay[t] · h[t - 1] + x[t], from the last step to the first along axis 1, as a scan of pairs."""

    def combine(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return a[0] * b[0], a[1] * b[0] + b[1]

    _, states = associative_scan(combine, (decay, cell.linear(x)), dim=1, reverse=True, combine_mode="generic")
    return states


# Regions --------------------------------------------------------------------------------------------------------------


def repeated_region(cell: Cell, x: Tensor) -> Tensor:
    region = torch.compiler.nested_compile_region(lambda a: cell(a) + a)
    return region(region(x))


POSITIVE, NEGATIVE = t(3, 4).abs(), -t(5, 4, seed=1).abs()
TURNS = tuple(torch.tensor(n) for n in (3, 0, 1, 5))

ROWS = {
    "cond: captured parameters, buffers and values": Row(
        cond_captures, ((POSITIVE, t(2, 4)), (NEGATIVE, t(6, 4))), ({0: AUTO}, {0: AUTO})
    ),
    "cond: on a size, branches of other sizes": Row(cond_on_size, ((t(5, 4),), (t(3, 4),), (t(4, 4),)), ({0: AUTO},)),
    "cond: nested": Row(cond_nested, ((POSITIVE,), (POSITIVE / 10,), (NEGATIVE,)), ({0: AUTO},)),
    "cond: several results": Row(cond_several_results, ((POSITIVE,), (NEGATIVE,)), ({0: AUTO},)),
    "cond: results that are operands": Row(cond_returns_outer_values, ((POSITIVE, t(3, 4)), (-POSITIVE, t(3, 4)))),
    "cond: literals": Row(cond_literals, ((POSITIVE,), (NEGATIVE,)), ({0: AUTO},)),
    "while_loop: captured values, 3, 0, 1 and 5 turns": Row(
        while_captures, tuple((t(3 + int(n), 4), n) for n in TURNS), ({0: AUTO}, None)
    ),
    "while_loop: int carry, which is returned": Row(while_counts, ((t(3, 4),), (t(7, 4),)), ({0: AUTO},)),
    "while_loop: int carry from a size, used outside": Row(
        while_uses_its_count, ((t(3, 4),), (t(7, 4) + 9,)), ({0: AUTO},)
    ),
    "while_loop: nested, with a cond": Row(while_nested, tuple((t(3, 4), n) for n in TURNS), ({0: AUTO}, None)),
    "while_loop_stack_output: 3, 0, 1 and 5 turns": Row(while_stacks, tuple((t(3, 4), n) for n in TURNS)),
    "while_loop: carries that change places": Row(while_swaps, tuple((t(3, 4), t(3, 4, seed=1), n) for n in TURNS)),
    "scan: captured values": Row(
        scan_captures,
        ((t(5, 2, 4), t(2, 4)), (t(1, 3, 4), t(3, 4)), (t(9, 3, 4), t(3, 4))),
        ({0: AUTO, 1: AUTO}, {0: AUTO}),
    ),
    "scan: axis 1, reversed": Row(
        scan_axis_reversed, ((t(2, 5, 4), t(2, 4)), (t(3, 7, 4), t(3, 4))), ({0: AUTO, 1: AUTO}, {0: AUTO})
    ),
    "scan: trees and integers": Row(scan_trees, ((t(5, 4), t(5, 4)), (t(2, 4), t(2, 4))), ({0: AUTO}, {0: AUTO})),
    "map: captured values": Row(
        map_captures, ((t(3, 2, 4), t(4)), (t(1, 3, 4), t(4)), (t(6, 5, 4), t(4))), ({0: AUTO, 1: AUTO}, None)
    ),
    "map: nested": Row(map_nested, ((t(3, 2, 4),), (t(5, 4, 4),)), ({0: AUTO, 1: AUTO},)),
    "associative_scan: other lengths": Row(sums, tuple((t(n, 4),) for n in (5, 1, 2, 8, 9)), ({0: AUTO},)),
    "associative_scan: fixed length": Row(sums, ((t(5, 4),),)),
    "associative_scan: pairs, axis 1, reversed": Row(
        state_space, tuple((t(2, n, 4).sigmoid(), t(2, n, 4, seed=1)) for n in (5, 3, 17)), ({1: AUTO}, {1: AUTO})
    ),
    "nested_compile_region: called twice": Row(repeated_region, ((t(3, 4),), (t(5, 4),)), ({0: AUTO},)),
}


OPSETS = tuple(
    (name, opset)
    for name in ("cond: nested", "while_loop: nested, with a cond", "scan: captured values", "map: captured values")
    for opset in (18, 26)
)


@pytest.mark.parametrize(("name", "opset"), [*((name, DEFAULT_OPSET) for name in ROWS), *OPSETS])
def test_control_flow(name: str, opset: int) -> None:
    row = ROWS[name]
    model = Run(row.function)
    shapes = (row.dynamic,) if row.dynamic is not None else None
    results = run_exported(model, row.cases, dynamic_shapes=shapes, options=Options(opset=opset))
    for case, actual in zip(row.cases, results, strict=True):
        with torch.no_grad():
            expected = pytree.tree_leaves(model(*pytree.tree_map_only(Tensor, torch.clone, case)))
        assert_same(actual, expected)


KEPT = (
    {"inline_single_use_invoke_subgraph": False} if hasattr(dynamo_config, "inline_single_use_invoke_subgraph") else {}
)
"""PyTorch 2.11 keeps each region."""


def test_invoke_subgraph() -> None:
    """A region that is called twice and kept as one body is one function of the model."""
    model = Run(repeated_region).requires_grad_(False)
    with torch.no_grad(), dynamo_config.patch(KEPT):
        exported = torch.export.export(model, (t(3, 4),), dynamic_shapes=(({0: AUTO},),), strict=False)
    assert [node.target for node in exported.graph.nodes].count(torch.ops.higher_order.invoke_subgraph) == 2
    program = export(exported)
    (function,) = program.model.functions.values()
    assert [node.op_type for node in program.model.graph] == [function.name] * 2
    for x in (t(3, 4), t(5, 4)):
        assert_same(run_session(session_of(program), program, (x,)), [model(x)])


def test_a_map_may_read_all_that_it_goes_over() -> None:
    """PyTorch refuses it for a second size, so that the expected values are those of a loop."""

    def centred(cell: Cell, x: Tensor) -> Tensor:
        return torch_map(lambda each: each * x.shape[0] - x.mean(0), x)

    cases = [(t(3, 4),), (t(5, 4),), (t(1, 4),)]
    for (x,), got in zip(cases, run_exported(Run(centred), cases, dynamic_shapes=({0: "n"},)), strict=True):
        assert_same(got, [x * x.shape[0] - x.mean(0)])


NORMS: dict[str, tuple[nn.Module, tuple[str, ...]]] = {
    "batch norm": (nn.BatchNorm1d(3), ("running_mean", "running_var", "num_batches_tracked")),
    "instance norm": (nn.InstanceNorm1d(3, track_running_stats=True), ("running_mean", "running_var")),
    "instance norm without state": (nn.InstanceNorm1d(3), ()),
}
"""Layers, and the names of the buffers that they write to in training mode."""


class InABranch(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) if x.sum() > 0 else x


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("training", [True, False])
def test_a_norm_in_a_branch_gives_its_statistics_in_training_mode_alone(name: str, training: bool) -> None:
    norm, written = NORMS[name]
    program = export(InABranch(norm).train(training), (t(2, 3, 5),))
    updated = {f"norm.{each}.updated" for each in written} if training else set()
    assert {output.name for output in program.model.graph.outputs} == {"output", *updated}
