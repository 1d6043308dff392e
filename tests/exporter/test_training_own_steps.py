"""Steps and hooks of optimizers beside PyTorch's own: run as PyTorch runs them, or refused with another form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from fxport import ExportError
from fxport.exporter.training import TrainingError, export_training_step
from tests.exporter.test_training_state import DATA, Parts, net
from tests.training import assert_teacher_forced, classify


class Own(optim.Optimizer):
    """Takes one step in PyTorch, as the docs say, so that the state has its initial values."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})


class ForMatrices(Own):
    """Preconditions matrices as Shampoo does, and keeps nothing of vectors: https://arxiv.org/abs/1802.09568."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for parameter in (each for group in self.param_groups for each in group["params"]):
            state, gradient = self.state[parameter], parameter.grad
            if parameter.dim() == 2:
                if not state:
                    state["left"] = 0.1 * torch.eye(parameter.shape[0])
                state["left"] = state["left"] + gradient @ gradient.T
                gradient = torch.linalg.solve(state["left"], gradient)
            parameter.sub_(0.1 * gradient)


class BeginsLater(Own):
    """Has momentum from its second step on."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for parameter in (each for group in self.param_groups for each in group["params"]):
            state = self.state[parameter]
            if not state:
                state["count"] = torch.zeros(())
            else:
                state["momentum"] = 0.9 * state.get("momentum", 0) + parameter.grad  # here
            state["count"] += 1
            parameter.sub_(0.1 * state.get("momentum", parameter.grad))


def begun(make: Callable[[Any], optim.Optimizer], steps: int = 1) -> Parts:
    model = net()
    optimizer = make(model.parameters())
    for _ in range(steps):
        classify(model, *DATA[0]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer, classify


@pytest.mark.parametrize(("make", "steps"), [(ForMatrices, 1), (BeginsLater, 2)])
def test_the_state_is_what_the_first_steps_have_made(make: Any, steps: int, tmp_path: Path) -> None:
    assert_teacher_forced(*begun(make, steps), DATA, tmp_path, steps=6)


def test_state_that_a_later_step_makes_is_refused_at_its_line() -> None:
    with pytest.raises(ExportError) as raised:
        export_training_step(*begun(BeginsLater), DATA[0])
    (told,) = raised.value.log.findings
    assert "it makes 'momentum' in the state of '0.weight'" in told.message
    assert told.place is not None
    assert told.place.path == __file__
    assert "# here" in Path(__file__).read_text(encoding="utf-8").splitlines()[told.place.line - 1]
    assert any("Take steps in PyTorch before the export" in fix.description for fix in told.fixes)


class Scaled(optim.SGD):
    @torch.no_grad()
    def step(self, closure: None = None, scale: float = 1.0) -> None:  # type: ignore[override]
        for parameter in (each for group in self.param_groups for each in group["params"]):
            parameter.sub_(0.1 * scale * parameter.grad)


def test_a_hook_gives_the_step_other_arguments(tmp_path: Path) -> None:
    model = net()
    optimizer = Scaled(model.parameters())

    def scaled(_: optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args, {**kwargs, "scale": 3.0}

    optimizer.register_step_pre_hook(scaled)
    assert_teacher_forced(model, optimizer, classify, DATA, tmp_path, steps=4)


def with_step_of_its_own() -> Parts:
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    plain = optimizer.step

    def step(closure: None = None) -> Any:
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        return plain(closure)

    optimizer.step = step  # type: ignore[method-assign]
    return model, optimizer, classify


def scheduled(make: Callable[[optim.Optimizer], Any]) -> Parts:
    model = net()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    make(optimizer)
    return model, optimizer, classify


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (with_step_of_its_own, "Write it as the `step` of a subclass, or as a hook"),
        (lambda: scheduled(lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=9)), "cycle_momentum=False"),
        (lambda: scheduled(lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.5)), "cycle_momentum=False"),
    ],
    ids=["a step of its own", "OneCycleLR", "CyclicLR"],
)
def test_what_the_graph_would_leave_out_is_refused(parts: Callable[[], Parts], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        export_training_step(*parts(), DATA[0])


@pytest.mark.parametrize("register", [register_optimizer_step_pre_hook, register_optimizer_step_post_hook])
def test_hooks_of_all_optimizers_are_refused(register: Callable[..., Any]) -> None:
    model = net()
    handle = register(lambda *_: None)
    try:
        with pytest.raises(TrainingError, match="hook of all optimizers"):
            export_training_step(model, optim.SGD(model.parameters(), lr=0.1), classify, DATA[0])
    finally:
        handle.remove()


def without_momentum(optimizer: optim.Optimizer) -> None:
    lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=9, cycle_momentum=False)


def two_schedules(optimizer: optim.Optimizer) -> None:
    lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.LinearLR(optimizer), lr_scheduler.CosineAnnealingLR(optimizer, 5)], [2]
    )


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("make", [without_momentum, two_schedules])
def test_schedules_of_the_learning_rate_alone_are_no_obstacle(make: Any, tmp_path: Path) -> None:
    assert_teacher_forced(*scheduled(make), DATA, tmp_path, steps=3)


# The mode of layers ---------------------------------------------------------------------------------------------------


def judged_by_itself(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model.eval()
    with torch.no_grad():
        target = model(x).softmax(-1)
    model.train()
    return classify(model, x, y) + nn.functional.cross_entropy(model(x), target)


def with_a_layer_in_eval_mode(model: Any, x: Tensor, y: Tensor) -> Tensor:
    model[1].eval()  # here
    return classify(model, x, y)


def normalized() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, 3)).train()


def test_a_mode_for_one_call_is_set_back(tmp_path: Path) -> None:
    model = normalized()
    assert_teacher_forced(model, optim.SGD(model.parameters(), lr=0.1), judged_by_itself, DATA, tmp_path, steps=4)


def test_a_mode_that_stays_is_refused_at_the_users_line_and_the_cure_is_right(tmp_path: Path) -> None:
    model = normalized()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ExportError) as raised:
        export_training_step(model, optimizer, with_a_layer_in_eval_mode, DATA[0])
    (told,) = raised.value.log.findings
    assert told.place is not None
    assert told.place.path == __file__
    assert "# here" in Path(__file__).read_text(encoding="utf-8").splitlines()[told.place.line - 1]
    assert any("Set the mode once before the export" in fix.description for fix in told.fixes)
    model[1].eval()
    assert_teacher_forced(model, optimizer, with_a_layer_in_eval_mode, DATA, tmp_path, steps=4)
