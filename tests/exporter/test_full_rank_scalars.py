"""Scalars beside tensors whose last axis is 1: the rank that they get, and that results stay."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

from fxport import OnnxProgram, export
from tests.running import assert_same, run_session, session_of


class Scaled(nn.Module):
    """A column by a number, by a parameter and by a computed scalar."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(*sizes))
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        y = (self.weight * 0.5 + x).clamp(min=-1.0) * self.gain
        return torch.where(a.sum() > 0, y * a.mean(), y - 2)


class InABody(nn.Module):
    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return torch.cond(a.sum() > 0, lambda x, s: x * 3 + s, lambda x, s: x * s, (x, a.mean()))


class OddNames(nn.Module):
    """Weights that have the names of what a pass makes."""

    def __init__(self) -> None:
        super().__init__()
        self.ones_2 = nn.Parameter(torch.randn(600, 1))
        self.const_2d = nn.Parameter(torch.randn(600, 1))

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return (x * 2 + self.ones_2) * a.sum() + self.const_2d


def ranks_beside_columns(program: OnnxProgram) -> set[tuple[int, int]]:
    """The rank of each scalar that is computed with a tensor whose last axis is 1, with that tensor's."""
    nodes = ir.traversal.RecursiveGraphIterator(program.model.graph)
    shapes = [
        [value.shape for value in node.inputs if value is not None] for node in nodes if node.op_type != "Reshape"
    ]
    return {
        (scalar.rank(), wide.rank())
        for found in shapes
        for wide in found
        for scalar in found
        if wide is not None and wide.rank() and wide[-1] == 1 and any(size != 1 for size in wide)
        if scalar is not None and all(size == 1 for size in scalar)
    }


@pytest.mark.parametrize(
    ("model", "sizes", "rank"),
    [
        (Scaled(144, 6, 1, 1), (144, 6, 1, 1), 4),
        (Scaled(600, 1), (600, 1), 2),
        (InABody(), (600, 1), 2),
        (OddNames(), (600, 1), 2),
    ],
    ids=["convolution", "column", "body", "names"],
)
def test_scalars_have_the_rank_of_their_partner(model: nn.Module, sizes: tuple[int, ...], rank: int) -> None:
    cases = [(torch.randn(sizes), torch.randn(3) + shift) for shift in (2.0, -2.0)]
    program = export(model, cases[0])
    assert ranks_beside_columns(program) == {(rank, rank)}
    session = session_of(program)
    for case in cases:
        assert_same(run_session(session, program, case), [model(*case)], tol=(1e-6, 1e-6))


def test_dynamic_columns() -> None:
    model, cases = InABody(), [(torch.randn(n, 1), torch.randn(3)) for n in (5, 700)]
    program = export(model, cases[0], dynamic_shapes=({0: "n"}, None))
    assert ranks_beside_columns(program) == {(2, 2)}
    session = session_of(program)
    for case in cases:
        assert_same(run_session(session, program, case), [model(*case)], tol=(1e-6, 1e-6))


def test_what_gains_nothing_stays() -> None:
    """A last axis that is longer, and few elements beside a computed scalar, for which a Reshape would cost more."""

    class Rows(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2 + x.sum(), y * y.sum()

    program = export(Rows(), (torch.randn(600, 3), torch.randn(4, 1)))
    assert not {"Reshape", "Unsqueeze"} & {node.op_type for node in program.model.graph}
