"""Training steps: the state after each step is what eager PyTorch comes to with the real optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fxport import ExportError
from fxport.diagnostics import rules
from fxport.exporter.training import TrainingError, export_training_step, load_into, state_from
from fxport.exporter.training.generator import at_least, key_of, uniform
from fxport.ort_runner.train import TrainingSession
from tests.training import OPTIMIZERS, assert_teacher_forced, batches, classify, fed, opened

optim = torch.optim

QUICK = ("dampening", "adamw", "radam", "adafactor", "rprop")
"""The optimizers of the usual run: state that begins specially, numbers in float64, branches on the count of steps,
comparisons, writes to selected elements."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OPTIMIZERS]
)
def test_every_optimizer_steps_as_in_pytorch(name: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16, bias=name != "muon"), nn.Tanh(), nn.Linear(16, 4, bias=name != "muon"))
    assert_teacher_forced(model, OPTIMIZERS[name](list(model.parameters())), classify, batches(16, 16, 16), tmp_path)


def test_dampening_that_has_not_begun_begins_after_the_state_is_back_in_pytorch() -> None:
    model = nn.Linear(8, 4)
    twin = copy.deepcopy(model)
    optimizer, plain = (OPTIMIZERS["dampening"](list(each.parameters())) for each in (model, twin))
    load_into(model, optimizer, state_from(model, optimizer))
    data = batches(16)[0]
    for each, updates in ((model, optimizer), (twin, plain)):
        classify(each, *data).backward()
        updates.step()
    torch.testing.assert_close(model.weight, twin.weight, rtol=0, atol=0)


class Branching(nn.Module):
    """Two heads: one is frozen, one is tied to the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.frozen, self.tied = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.frozen(self.tied(torch.tanh(self.first(x))))


def test_frozen_and_tied_parameters_and_groups_of_their_own(tmp_path: Path) -> None:
    model = Branching()
    groups = [
        {"params": [model.first.weight], "lr": 0.1},
        {"params": [model.first.bias, model.tied.bias], "momentum": 0.5, "lr": 0.01},
    ]
    program = assert_teacher_forced(model, optim.SGD(groups), classify, batches(16), tmp_path, steps=4)
    outputs = {value.name for value in program.model.graph.outputs}
    assert "new/param/first.weight" in outputs
    assert "new/param/frozen.weight" not in outputs
    assert "param/tied.weight" not in program.state


def test_gradients_are_accumulated_clipped_and_returned(tmp_path: Path) -> None:
    model = nn.Linear(8, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(3, 16, 8), torch.randint(0, 4, (3, 16))
    program = export_training_step(
        model, optimizer, classify, (x, y), accumulate=3, clip_grad_norm=0.05, outputs=("grad", "grad_norm")
    )
    session = opened(program, tmp_path)
    results = session.step({"x": x.numpy(), "y": y.numpy()})
    loss = torch.stack([classify(model, x[i], y[i]) for i in range(3)]).mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
    np.testing.assert_allclose(results["loss"], loss.item(), rtol=1e-6)
    np.testing.assert_allclose(results["grad_norm"], norm.item(), rtol=1e-6)
    assert model.weight.grad is not None
    np.testing.assert_allclose(results["grad/weight"], model.weight.grad.numpy(), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(session.state()["param/weight"], model.weight.detach().numpy(), rtol=1e-6)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(8, 4, num_layers=2, dropout=0.5, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x[None])[0][0]


def test_recurrent_layers_drop_out_between_one_another(tmp_path: Path) -> None:
    model = Layers()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    assert_teacher_forced(model, optimizer, classify, batches(4, classes=8), tmp_path, steps=2)


def reduced(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return cross_entropy(model(x).float(), y)


def test_autocast_keeps_its_precision(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    program = assert_teacher_forced(model, optimizer, reduced, batches(16), tmp_path, steps=3, tol=1e-3)  # of bfloat16
    assert any(value.dtype == ir.DataType.BFLOAT16 for node in program.model.graph for value in node.outputs)


class Own(optim.Optimizer):
    """Momentum with a correction by a count of steps, which is a Python number in the state."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # without a closure
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["count"], state["mean"] = 0, torch.zeros_like(p)
                state["count"] += 1
                state["mean"].mul_(0.9).add_(p.grad)
                p.sub_(group["lr"] * state["mean"] / (1 - 0.9 ** state["count"]))


def test_an_optimizer_of_ones_own_counts_on(tmp_path: Path) -> None:
    model, data = nn.Linear(8, 4), batches(16)[0]
    optimizer = Own(model.parameters(), lr=0.01)
    with pytest.raises(TrainingError, match="Take one step in PyTorch"):
        export_training_step(model, optimizer, classify, data)
    classify(model, *data).backward()
    optimizer.step()
    session = opened(export_training_step(model, optimizer, classify, data), tmp_path)
    for _ in range(4):
        session.step(fed(("x", "y"), data))
        optimizer.zero_grad()
        classify(model, *data).backward()
        optimizer.step()
    assert session.state()["opt/weight/count"] == 5
    np.testing.assert_allclose(session.state()["param/weight"], model.weight.detach().numpy(), rtol=1e-5, atol=1e-6)


class HalfUsed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.forgotten = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def test_a_parameter_without_a_gradient_is_an_error_at_the_module(tmp_path: Path) -> None:
    model = HalfUsed()
    optimizer = optim.Adam(model.parameters())
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optimizer, classify, batches(4)[0])
    finding = next(each for each in raised.value.log.findings if each.rule.id == "FXP1015")
    assert finding.place is not None
    assert finding.place.path == __file__
    program = export_training_step(model, optimizer, classify, batches(4)[0], allow_unused=True)
    assert "new/param/forgotten.weight" not in {value.name for value in program.model.graph.outputs}


class Scaled(HalfUsed):
    def forward(self, x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        return self.forgotten(self.used(x).repeat(1, 2)) * factor


def scaled(model: nn.Module, x: torch.Tensor, label: torch.Tensor, factor: float) -> torch.Tensor:
    return cross_entropy(model(x, factor), label)


def test_what_is_told_of_the_model_is_told_at_the_users_own() -> None:
    model = Scaled()
    batch = (*batches(4)[0], 0.5)
    program = export_training_step(model, optim.SGD(model.parameters(), lr=0.1), scaled, batch)
    (told,) = [each for each in program.log.findings if each.rule is rules.SCALAR_INPUT_BAKED]
    assert told.place is not None
    assert (told.place.path, told.place.line) == (__file__, Scaled.forward.__code__.co_firstlineno)


@pytest.mark.parametrize(
    ("make", "how", "said"),
    [
        (lambda p: optim.LBFGS(p), {}, "LBFGS cannot be a part of the graph"),
        (lambda p: optim.SparseAdam(p), {}, "SparseAdam cannot be a part of the graph"),
        (lambda p: optim.SGD(p[:1], lr=0.1), {}, "is in no group of the optimizer"),
        (lambda p: optim.SGD([*p, nn.Parameter(torch.ones(1))], lr=0.1), {}, "is none of the model's"),
        (lambda p: optim.SGD(p, lr=0.1), {"outputs": ("weights",)}, "outputs has 'weights'"),
        (lambda p: optim.SGD(p, lr=0.1), {"accumulate": 0}, "accumulate is 0"),
        (lambda p: optim.SGD(p, lr=0.1), {"steps": 0}, "steps is 0"),
    ],
)
def test_what_cannot_be_trained_is_said(make: Callable[..., optim.Optimizer], how: dict[str, Any], said: str) -> None:
    model = nn.Linear(8, 4)
    with pytest.raises(TrainingError, match=said):
        export_training_step(model, make(list(model.parameters())), classify, batches(4)[0], **how)


def in_groups(model: nn.Sequential) -> optim.Optimizer:
    return optim.SGD([{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "lr": 0.02}])


def test_a_schedule_of_learning_rates_is_fed(tmp_path: Path) -> None:
    model, data = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), batches(16)[0]
    optimizer = in_groups(model)
    session = opened(export_training_step(model, optimizer, classify, data), tmp_path)
    assert session.rates == pytest.approx({"lr/0": 0.1, "lr/1": 0.02})
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(4):
        session.rates = {f"lr/{group}": float(rate) for group, rate in enumerate(schedule.get_last_lr())}
        session.step(fed(("x", "y"), data))
        optimizer.zero_grad()
        classify(model, *data).backward()
        optimizer.step()
        schedule.step()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(session.state()[f"param/{name}"], parameter.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_constant_learning_rates_are_no_inputs(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = in_groups(model)
    program = assert_teacher_forced(model, optimizer, classify, batches(16), tmp_path, steps=2, lr="constant")
    assert not any(str(value.name).startswith("lr/") for value in program.model.graph.inputs)


def test_masks_of_dropout_are_inputs(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.25), nn.Linear(16, 4), nn.Dropout(0.5))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    dims = ({0: "batch"}, {0: "batch"})
    program = export_training_step(model, optimizer, classify, batches(6)[0], rng="mask", dynamic_shapes=dims)
    session = opened(program, tmp_path)
    ((x, y),) = batches(9)
    masks = [(torch.rand(9, 16) > 0.25).float(), (torch.rand(9, 4) > 0.5).float()]
    fed_masks = {f"mask/{number}": mask.numpy() for number, mask in enumerate(masks)}
    results = session.step({"x": x.numpy(), "y": y.numpy(), **fed_masks})
    hidden = model[0](x) * masks[0] / 0.75
    loss = cross_entropy(model[2](hidden) * masks[1] / 0.5, y)
    loss.backward()
    optimizer.step()
    np.testing.assert_allclose(results["loss"], loss.item(), rtol=1e-5)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(session.state()[f"param/{name}"], parameter.detach().numpy(), rtol=1e-5, atol=1e-6)


def share_kept(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A loss that tells how many elements were kept."""
    return (model(x) != 0).float().mean() + 0 * sum(parameter.sum() for parameter in model.parameters())


def test_dropout_of_the_runtime_drops_out(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.25))
    x = torch.ones(20_000, 1)
    program = export_training_step(model, optim.SGD(model.parameters(), lr=0.0), share_kept, (x,), rng="native")
    session = opened(program, tmp_path)
    losses = [float(session.step({"x": x.numpy()})["loss"]) for _ in range(2)]
    assert losses[0] != losses[1]
    assert all(abs(loss - 0.75) < 0.02 for loss in losses)


def test_steps_in_a_loop_are_the_same_steps(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = optim.AdamW(model.parameters())
    data = [fed(("x", "y"), batch) for batch in batches(*[16] * 6)]
    one = opened(export_training_step(model, optimizer, classify, batches(16)[0]), tmp_path)
    losses = one.fit(data)
    (tmp_path / "loop").mkdir()
    loop = opened(export_training_step(model, optimizer, classify, batches(16)[0], steps=3), tmp_path / "loop")
    stacked = [{name: np.stack([data[i + j][name] for j in range(3)]) for name in ("x", "y")} for i in (0, 3)]
    assert loop.fit(stacked) == losses
    assert loop.steps == one.steps == 6
    for name, value in one.state().items():
        np.testing.assert_array_equal(loop.state()[name], value)


def test_a_broken_off_run_goes_on_with_the_same_numbers_and_comes_back_to_pytorch(tmp_path: Path) -> None:
    first = nn.Linear(8, 16)
    model = nn.Sequential(first, nn.Dropout(0.2), nn.Linear(16, 4))
    optimizer = optim.Adam(model.parameters())
    session = opened(export_training_step(model, optimizer, classify, batches(16)[0]), tmp_path)
    data = [fed(("x", "y"), batch) for batch in batches(*[16] * 8)]
    losses = session.fit(data, checkpoint=tmp_path / "run.safetensors", every=3)
    assert session.steps == 8
    again = TrainingSession(tmp_path / "step.onnx", provider="cpu")
    again.fit(data[:5], checkpoint=tmp_path / "part.safetensors")
    resumed = TrainingSession(tmp_path / "step.onnx", provider="cpu")
    resumed.resume(tmp_path / "part.safetensors")
    assert resumed.fit(data[5:]) == losses[5:]
    load_into(model, optimizer, resumed.state())
    np.testing.assert_array_equal(first.weight.detach().numpy(), session.state()["param/0.weight"])
    assert optimizer.state[first.weight]["step"].item() == 8


@pytest.mark.parametrize("make", [OPTIMIZERS["adamw"], OPTIMIZERS["dampening"]])
def test_a_checkpoint_of_pytorch_goes_on_in_onnx_runtime(
    make: Callable[[Any], optim.Optimizer], tmp_path: Path
) -> None:
    data = batches(*[16] * 4)
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.Linear(16, 4))
    session = opened(export_training_step(model, make(list(model.parameters())), classify, data[0]), tmp_path)
    optimizer = make(list(model.parameters()))
    for number, batch in enumerate(data):
        if number == 2:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint.pt")
        optimizer.zero_grad()
        classify(model, *batch).backward()
        optimizer.step()
    held = torch.load(tmp_path / "checkpoint.pt")
    again = copy.deepcopy(model)
    again.load_state_dict(held["model"])
    resumed = make(list(again.parameters()))
    resumed.load_state_dict(held["optimizer"])
    session.load(state_from(again, resumed), steps=2)
    session.fit([fed(("x", "y"), batch) for batch in data[2:]])
    for name, value in state_from(model, optimizer).items():
        np.testing.assert_allclose(session.state()[name], value, rtol=1e-4, atol=2e-6, err_msg=name)


def test_uniform_numbers_are_uniform() -> None:
    numbers = uniform(key_of(torch.tensor(7), 1, {}), torch.empty(1000, 100), {}).double()
    assert 0 <= numbers.min() < 1e-3
    assert 1 - 1e-3 < numbers.max() < 1
    assert abs(numbers.mean().item() - 0.5) < 3e-3
    assert abs(numbers.var().item() - 1 / 12) < 1e-3
    other = uniform(key_of(torch.tensor(8), 1, {}), torch.empty(1000, 100), {}).double()
    assert abs(torch.corrcoef(torch.stack([numbers.ravel(), other.ravel()]))[0, 1].item()) < 1e-2
    neighbours = torch.stack([numbers.ravel()[1:], numbers.ravel()[:-1]])
    assert abs(torch.corrcoef(neighbours)[0, 1].item()) < 1e-2
    rows = numbers.ravel()[: 700 * 128].reshape(700, 128)
    assert torch.corrcoef(rows.T).fill_diagonal_(0).abs().max().item() < 0.25  # 1 / sqrt(700) each
    assert torch.corrcoef(rows).fill_diagonal_(0).abs().max().item() < 0.55


@pytest.mark.parametrize("limit", [0.0, 1e-9, 0.1, 0.5, 1 - 1e-9, 1.0])
def test_numbers_are_compared_without_being_made(limit: float) -> None:
    key, like = key_of(torch.tensor(3), 2, {}), torch.empty(50, 60)
    torch.testing.assert_close(at_least(key, like, {}, limit), uniform(key, like, {}) >= limit)
