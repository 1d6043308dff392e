"""Control flow and random choices inside of a training step."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops import scan

from fxport import ExportError
from fxport.diagnostics import rules
from fxport.exporter.training import export_training_step
from fxport.exporter.training.seeded import SeededRandom
from tests.training import assert_teacher_forced, batches, classify, fed, opened


class Net(nn.Module):
    """Two layers, of which rows use the first inside of a branch or a body."""

    def __init__(self, forward: Callable[[nn.Linear, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 1)
        self.inside = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.inside(self.first, x)).square().mean()


def branch(layer: nn.Linear, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: layer(y).tanh(), lambda y: layer(y).sin() * 2, (x,))


def scanned(layer: nn.Linear, x: Tensor) -> Tensor:
    def turn(carried: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        after = layer(carried + row).tanh()
        return after, after * 2

    return scan(turn, torch.zeros_like(x[0]), x)[1]


def each_row(layer: nn.Linear, x: Tensor) -> Tensor:
    return mapped(lambda row: layer(row).tanh(), x)  # pyright: ignore[reportArgumentType]  # operands are optional


def repeated(layer: nn.Linear, x: Tensor) -> Tensor:
    def body(turn: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return turn + 1, (y * 1.5).sin()

    begun = torch.tensor(0), layer(x).detach()
    return layer(x) + torch.while_loop(lambda turn, _: turn < 3, body, begun)[1]


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


@pytest.mark.parametrize("inside", [branch, scanned, each_row, repeated])
def test_control_flow_is_differentiated(inside: Callable[[nn.Linear, Tensor], Tensor], tmp_path: Path) -> None:
    """Batches of both signs, so that a branch is taken each."""
    model, x = Net(inside), torch.rand(5, 6)
    before = model.first.weight.detach().clone()
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), loss_of, [(x,), (-x,)], tmp_path, steps=2)
    assert not torch.allclose(model.first.weight, before, rtol=0, atol=1e-3)


def shuffled(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x[torch.randperm(x.shape[0])]) * torch.arange(x.shape[0])[:, None]


def scaled_at_random(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x) * torch.randint(1, 5, (x.shape[0], 1)) + torch.randint(3, (6,))


def chosen(layer: nn.Linear, x: Tensor) -> Tensor:
    shares = torch.arange(1.0, 6.0)
    return layer(x[torch.multinomial(shares, 3)]) + layer(x[torch.multinomial(shares, 3, replacement=True)]) * 2


def waited(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x) * torch.empty_like(x).exponential_(2.0)


def attended(layer: nn.Linear, x: Tensor) -> Tensor:
    """Attention is fused in eager PyTorch, where its operator may draw, but does not."""
    y = layer(x)[None, None]
    return nn.functional.scaled_dot_product_attention(y, y, y)[0, 0] * torch.rand(6)


@pytest.mark.parametrize("inside", [shuffled, scaled_at_random, chosen, waited, attended])
def test_random_choices_are_those_of_the_seed(inside: Callable[[nn.Linear, Tensor], Tensor], tmp_path: Path) -> None:
    model, x = Net(inside), torch.randn(5, 6)
    session = opened(export_training_step(model, optim.SGD(model.parameters(), lr=0.0), loss_of, (x,)), tmp_path)
    losses = [float(session.step(fed(("x",), (x,)))["loss"]) for _ in range(3)]
    wanted = []
    for seed in range(3):
        with SeededRandom(torch.tensor(seed)):
            wanted.append(model(x).item())
    assert losses == pytest.approx(wanted, rel=1e-5)
    assert len(set(losses)) == 3


def test_choices_are_as_likely_as_they_should_be() -> None:
    with SeededRandom(torch.tensor(1)):
        shares = torch.tensor([1.0, 2.0, 5.0]).expand(4000, 3)
        first = torch.multinomial(shares, 2)
        again = torch.multinomial(shares, 1, replacement=True)
        whole = torch.randint(-2, 2, (8000,))
        waits = torch.empty(8000).exponential_(4.0)
        order = torch.randperm(50)
    for drawn in (first[:, 0], again[:, 0]):
        torch.testing.assert_close(drawn.bincount() / 4000, shares[0] / 8, atol=0.02, rtol=0)
    assert (first[:, 0] != first[:, 1]).all()
    torch.testing.assert_close((whole + 2).bincount() / 8000, torch.full((4,), 0.25), atol=0.02, rtol=0)
    assert abs(waits.mean().item() - 0.25) < 0.01
    assert order.sort().values.equal(torch.arange(50))


def test_a_random_op_without_a_seed_is_said() -> None:
    def drawn(layer: nn.Linear, x: Tensor) -> Tensor:
        return layer(x) * torch.poisson(x.abs())

    model = Net(drawn)
    with pytest.raises(ExportError, match="draws random numbers that no seed gives") as failure:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss_of, (torch.randn(5, 6),))
    (finding,) = failure.value.log.findings
    assert finding.rule is rules.UNSUPPORTED_PYTHON_CONSTRUCT
    assert "pass them in the batch" in finding.fixes[0].description


def dropped_in_branch(layer: nn.Linear, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: torch.dropout(layer(y), 0.5, True), lambda y: layer(y), (x,))


def dropped_in_body(layer: nn.Linear, x: Tensor) -> Tensor:
    def turn(carried: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        after = torch.dropout(layer(carried + row), 0.5, True)
        return after, after * 2

    return scan(turn, torch.zeros_like(x[0]), x)[1]


@pytest.mark.parametrize("rng", ["seed", "mask"])
@pytest.mark.parametrize("inside", [dropped_in_branch, dropped_in_body])
def test_what_a_branch_or_a_body_draws_is_refused_at_its_line(
    inside: Callable[[nn.Linear, Tensor], Tensor], rng: Literal["seed", "mask"]
) -> None:
    model = Net(inside)
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optim.SGD(model.parameters(), lr=0.1), loss_of, (torch.rand(5, 6),), rng=rng)
    (told,) = [each for each in raised.value.log.findings if each.rule is rules.UNSEEDED_RANDOM]
    assert told.place is not None
    lines, first = inspect.getsourcelines(inside)
    assert (told.place.path, first <= told.place.line < first + len(lines)) == (__file__, True)


def drawn_before_branch(layer: nn.Linear, x: Tensor) -> Tensor:
    kept = (torch.rand_like(x) >= 0.5) / 0.5
    return torch.cond(x.sum() > 0, lambda y, mask: layer(y) * mask, lambda y, mask: layer(y) + 0 * mask, (x, kept))


def drawn_before_loop(layer: nn.Linear, x: Tensor) -> Tensor:
    def turn(carried: Tensor, rows: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        after = layer(carried + rows[0]) * rows[1]
        return after, after * 2

    return scan(turn, torch.zeros_like(x[0]), (x, (torch.rand_like(x) >= 0.5) / 0.5))[1]


def sloped_at_random(layer: nn.Linear, x: Tensor) -> Tensor:
    return nn.functional.rrelu(
        nn.functional.rrelu(layer(x), 0.2, 0.9, training=True) - 0.5, training=True, inplace=True
    )


@pytest.mark.parametrize("inside", [drawn_before_branch, drawn_before_loop, sloped_at_random])
def test_the_gradient_knows_what_was_drawn(inside: Callable[[nn.Linear, Tensor], Tensor], tmp_path: Path) -> None:
    """The first two are what FXP1036 says to write."""
    model, x = Net(inside), torch.rand(5, 6)
    optimizer = optim.SGD(model.parameters(), lr=0.01)  # a larger one may diverge in the loop
    assert_teacher_forced(model, optimizer, loss_of, [(x,), (-x,)], tmp_path, steps=4)


def test_hooks_of_the_optimizer_draw_from_the_seed(tmp_path: Path) -> None:
    def noise(optimizer: optim.Optimizer, *_: Any) -> None:
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad += 0.1 * torch.randn_like(parameter)

    model, x = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 1)), torch.randn(5, 6)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(noise)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).square().mean()

    program = export_training_step(model, optimizer, loss, (x,))
    assert not any(finding.rule is rules.RANDOMNESS_CAPTURED for finding in program.log.findings)
    session, again = opened(program, tmp_path), opened(program, tmp_path)
    for number in range(3):
        session.step({"x": x.numpy()})
        again.step({"x": x.numpy()})
        optimizer.zero_grad()
        with SeededRandom(torch.tensor(number)):
            loss(model, x).backward()
            optimizer.step()
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(session.state()[f"param/{name}"], again.state()[f"param/{name}"])
        torch.testing.assert_close(torch.from_numpy(session.state()[f"param/{name}"]), parameter.detach())


def scaled_by_beta(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer(x) * torch.distributions.Beta(0.5, 0.5).sample()


def test_numbers_that_no_seed_gives_come_with_the_batch_or_from_the_runtime(tmp_path: Path) -> None:
    """As the error says."""
    model, x = Net(scaled_by_beta), torch.randn(5, 6)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(
        ExportError, match=r"(?s)_sample_dirichlet.* pass them in the batch, or export with rng='native'"
    ):
        export_training_step(model, optimizer, loss_of, (x,))
    session = opened(export_training_step(model, optimizer, loss_of, (x,), rng="native"), tmp_path)
    assert len({float(session.step({"x": x.numpy()})["loss"]) for _ in range(3)}) == 3
    plain = Net(lambda layer, given: layer(given))

    def scaled(model: nn.Module, x: Tensor, factor: Tensor) -> Tensor:
        return model(x) * factor

    data = [(x, torch.distributions.Beta(0.5, 0.5).sample()) for _ in range(2)]
    (tmp_path / "batch").mkdir()
    assert_teacher_forced(plain, optim.SGD(plain.parameters(), lr=0.1), scaled, data, tmp_path / "batch", steps=2)


class Halved(optim.Adam):
    """Calls the step of the class above, as many optimizers of one's own do."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad.mul_(0.5)
        return super().step(closure)


@pytest.mark.parametrize("plain_first", [False, True])
def test_an_optimizer_may_call_the_step_of_its_base(plain_first: bool, tmp_path: Path) -> None:
    """Whose step PyTorch wraps as soon as there is a plain one."""
    model = nn.Linear(6, 4)
    step = optim.Adam.step
    plain = getattr(step, "__wrapped__", step)
    with mock.patch.object(optim.Adam, "step", plain):
        if plain_first:
            optim.Adam([torch.zeros(1)])
        assert getattr(optim.Adam.step, "hooked", False) == plain_first
        optimizer, hook = Halved(model.parameters(), lr=0.01), mock.Mock(return_value=None)
        optimizer.register_step_pre_hook(hook)
        data = batches(5, 5, shape=(6,))
        assert_teacher_forced(model, optimizer, classify, data, tmp_path, steps=3)
        one_step_of_eager = hook.call_count
        optimizer.step()
        assert hook.call_count - one_step_of_eager == 1 + plain_first


def bag(mode: str, **how: Any) -> Callable[[], nn.Module]:
    return lambda: nn.EmbeddingBag(10, 4, mode=mode, **how)


@pytest.mark.parametrize(
    "make",
    [
        bag("max"),
        bag("max", padding_idx=3),
        bag("sum", sparse=True),
        lambda: nn.Embedding(10, 4, sparse=True),
    ],
    ids=["max", "max with padding", "sparse bags", "sparse rows"],
)
def test_tables_of_embeddings_are_trained(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    """With ties, empty bags, and rows that no batch asks for. SGD updates by a sparse gradient as by a dense one."""
    model = make()
    with torch.no_grad():
        model.weight[2] = model.weight[5]  # type: ignore[index]
    indices = [torch.tensor([2, 5, 7, 3, 3, 1, 9, 5]), torch.tensor([5, 2, 2, 0, 3, 8, 8, 8])]
    offsets = torch.tensor([0, 3, 3, 5, 6])
    bags = isinstance(model, nn.EmbeddingBag)

    def loss(model: nn.Module, indices: Tensor, offsets: Tensor) -> Tensor:
        rows = model(indices, offsets) if bags else model(indices)[offsets]
        return (rows * torch.arange(1.0, 21.0).reshape(5, 4)).square().mean()

    data = [(each, offsets) for each in indices]
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), loss, data, tmp_path, steps=4)
    assert isinstance(model, nn.EmbeddingBag | nn.Embedding)
    assert model.sparse == make().sparse  # type: ignore[union-attr]


def test_batch_norm_without_momentum_averages_over_all_batches(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(8, momentum=None)
    model = nn.Sequential(nn.Linear(6, 8), norm, nn.Linear(8, 4)).train()
    data = batches(8, 8, 8, shape=(6,))
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), classify, data, tmp_path, steps=5)
    assert norm.momentum is None
    assert not norm._forward_hooks
    assert not norm._forward_pre_hooks
