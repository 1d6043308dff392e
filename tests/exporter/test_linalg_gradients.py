"""Gradients of what solves and factors matrices: in training steps, and within `forward`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, linalg, nn, optim

from fxport import export, ort_runner
from fxport.diagnostics import Log
from fxport.exporter.validation import reference
from tests.sampling import marks_of, sampled
from tests.training import assert_teacher_forced

SIZE = 5


def by_rows(x: Tensor) -> Tensor:
    """A well-conditioned matrix without symmetry that lies in memory by rows."""
    return (x @ x.mT / 4 + x @ x.mT.tril() / 20 + 2 * torch.eye(SIZE)).contiguous()


def by_columns(x: Tensor) -> Tensor:
    return by_rows(x).mT


def log_likelihood(a: Tensor) -> Tensor:
    symmetric = a @ a.mT
    normal = torch.distributions.MultivariateNormal(torch.zeros(SIZE), symmetric, validate_args=False)
    return normal.log_prob(a[..., 0, :]).mean()


LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "cholesky": lambda a: linalg.cholesky(a @ a.mT).square().sum(),
    "inv": lambda a: linalg.inv(a).square().sum(),
    "solve": lambda a: linalg.solve(a, a.square()).square().sum(),
    "solve from the right": lambda a: linalg.solve(a, a.square(), left=False).square().sum(),
    "det": lambda a: linalg.det(a).mean(),
    "slogdet": lambda a: linalg.slogdet(a)[1].mean(),
    "MultivariateNormal": log_likelihood,
}
ROWS = (
    *((name, by_rows) for name in LOSSES),
    *((name, by_columns) for name in ("solve", "solve from the right", "det", "slogdet")),
)
"""Losses, each with how its matrices lie in memory: those of which a gradient reads factors with both."""


def sample(rows: Sequence[tuple[str, Callable[[Tensor], Tensor]]], suite: str) -> Iterator[Any]:
    """Each loss and each layout in the usual run; `--slow` has all rows."""
    named = [(name, layout.__name__) for name, layout in rows]
    taken = sampled(named, lambda row: f"{suite}-{row[0]}-{row[1]}", lambda row: row, one_in=8)
    for (name, layout), is_taken in zip(rows, taken, strict=True):
        yield pytest.param(name, layout, id=f"{name}-{layout.__name__}", marks=marks_of(is_taken))


class Matrices(nn.Module):
    def __init__(self, layout: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.layout = nn.Linear(SIZE, SIZE), layout

    def forward(self, x: Tensor) -> Tensor:
        return self.layout(self.first(x).tanh())


@pytest.mark.parametrize(("name", "layout"), list(sample(ROWS, "step")))
def test_a_step(name: str, layout: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Matrices(layout)
    data = [(torch.randn(rows, SIZE, SIZE),) for rows in (3, 2)]

    def loss_fn(model: nn.Module, x: Tensor) -> Tensor:
        return LOSSES[name](model(x))

    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    assert_teacher_forced(model, optimizer, loss_fn, data, tmp_path, steps=4, dynamic_shapes=({0: "batch"},))


class Slope(nn.Module):
    def __init__(self, loss: Callable[[Tensor], Tensor], layout: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.loss, self.layout = loss, layout

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: self.loss(self.layout(x)))(x)


SETTLED = [(name, layout) for name, layout in ROWS if name != "det"]
"""All but `det`: its gradient comes from two factorizations, and is up to 1.4 times the allowed error at some matrices,
which validation tells as a difference."""


@pytest.mark.parametrize(("name", "layout"), list(sample(SETTLED, "forward")))
def test_within_forward(name: str, layout: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, args, log = Slope(LOSSES[name], layout), (torch.randn(3, SIZE, SIZE),), Log()
    program = export(model, args, dynamic_shapes=({0: "batch"},), log=log)
    program.save(tmp_path / "m.onnx")
    samples = [case.samples() for case in reference.cases(model, args, None, program, log)]
    assert ort_runner.validate(tmp_path / "m.onnx", samples, provider="cpu", log=log).passed
