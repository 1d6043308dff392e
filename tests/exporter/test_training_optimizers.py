"""Several optimizers in one training step, each on parameters of its own."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn, optim
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from fxport.exporter.training import TrainingError, as_tensor, export_training_step, load_into, state_from
from fxport.exporter.training.description import METADATA
from fxport.ort_runner.train_description import NotATrainingStep
from tests.training import assert_teacher_forced, batches, classify, fed, opened

DATA = batches(8, 8, shape=(6,), classes=3)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.LayerNorm(10), nn.Tanh(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 3))


def muon_and_adamw(model: nn.Module) -> list[optim.Optimizer]:
    """Muon for the matrices, AdamW in two groups for the rest: three learning rates."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    biases, norms = [p for n, p in model.named_parameters() if "bias" in n], [model[1].weight]
    return [optim.Muon(matrices, lr=0.02), optim.AdamW([{"params": biases}, {"params": norms, "lr": 0.01}])]


def two_of_a_kind(model: nn.Module) -> list[optim.Optimizer]:
    """Updates that are alike within each of them, and not between them."""
    first, *others = model.children()
    return [
        optim.Adam(first.parameters(), lr=0.01),
        optim.Adam([p for m in others for p in m.parameters()], lr=0.02, betas=(0.5, 0.9)),
    ]


def second_reads_the_first(model: nn.Module) -> list[optim.Optimizer]:
    """A hook of the second finds what the first has stepped to."""
    first, *others = model.children()
    own, rest = list(first.parameters()), [p for m in others for p in m.parameters()]
    second = optim.SGD(rest, lr=0.1, momentum=0.9, dampening=0.5)

    def pulled(optimizer: optim.Optimizer, *_: Any) -> None:
        with torch.no_grad():
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.mul_(1 - 0.01 * own[0].abs().mean())

    second.register_step_post_hook(pulled)
    return [optim.SGD(own, lr=0.5), second]


@pytest.mark.parametrize("make", [muon_and_adamw, two_of_a_kind, second_reads_the_first])
def test_optimizers_step_in_turn(make: Any, tmp_path: Path) -> None:
    model = net()
    program = assert_teacher_forced(model, make(model), classify, DATA, tmp_path, steps=6)
    rates = [name for value in program.model.graph.inputs if (name := str(value.name)).startswith("lr/")]
    assert rates == [f"lr/{number}" for number in range(len([g for o in make(model) for g in o.param_groups]))]


def test_an_optimizer_alone_in_a_list_is_the_same_step(tmp_path: Path) -> None:
    model = net()
    alone, listed = (
        export_training_step(model, given, classify, DATA[0])
        for adam in [optim.Adam(model.parameters())]
        for given in (adam, [adam])
    )
    for name, program in (("alone", alone), ("listed", listed)):
        (tmp_path / name).mkdir()
        session = opened(program, tmp_path / name)
        session.step(fed(("x", "y"), DATA[0]))
        state = session.state_dict()["optimizer"]
        assert isinstance(state, list) is (name == "listed")


def test_state_goes_to_pytorch_and_back(tmp_path: Path) -> None:
    model = net()
    optimizers = muon_and_adamw(model)
    session = opened(export_training_step(model, optimizers, classify, DATA[0]), tmp_path)
    session.rates["lr/2"] = 0.005
    for batch in DATA:
        session.step(fed(("x", "y"), batch))
    states = session.state_dict(as_tensor)

    loaded = net()
    loaded.load_state_dict(states["model"])
    of_dicts = muon_and_adamw(loaded)
    for optimizer, state in zip(of_dicts, states["optimizer"], strict=True):
        optimizer.load_state_dict(state)
    assert [group["lr"] for each in of_dicts for group in each.param_groups] == pytest.approx([0.02, 1e-3, 0.005])
    copied = net()
    of_state = muon_and_adamw(copied)
    load_into(copied, of_state, session.state())
    for held in (state_from(loaded, of_dicts), state_from(copied, of_state)):
        assert held.keys() == session.state().keys()
        for name, value in session.state().items():
            np.testing.assert_array_equal(held[name], value, err_msg=name)


def test_a_checkpoint_of_pytorch_has_a_list(tmp_path: Path) -> None:
    model = net()
    optimizers = muon_and_adamw(model)
    for x, y in DATA:
        classify(model, x, y).backward()
        for each in optimizers:
            each.step()
    states = {"model": model.state_dict(), "optimizers": [each.state_dict() for each in optimizers]}
    torch.save(states, tmp_path / "run.pt")
    fresh = net()
    program = export_training_step(fresh, muon_and_adamw(fresh), classify, DATA[0], weights=tmp_path / "run.pt")
    for name, value in state_from(model, optimizers).items():
        np.testing.assert_array_equal(program.state[name].numpy(), value, err_msg=name)


def test_a_parameter_has_one_optimizer() -> None:
    model = net()
    twice = [optim.SGD(model.parameters(), lr=0.1), optim.Adam(copy.copy(list(model[0].parameters())))]
    with pytest.raises(TrainingError, match=r"'0\.weight' is in groups of two optimizers; give it to one"):
        export_training_step(model, twice, classify, DATA[0])


def test_shares_that_do_not_fit_the_groups_are_damage(tmp_path: Path) -> None:
    model = net()
    program = export_training_step(model, muon_and_adamw(model), classify, DATA[0])
    described = json.loads(program.model.metadata_props[METADATA])
    assert described["optimizers"] == [1, 2]
    program.model.metadata_props[METADATA] = json.dumps(described | {"optimizers": [1, 1]})
    with pytest.raises(NotATrainingStep, match="more or fewer groups"):
        opened(program, tmp_path)


class AtNeighbour(optim.SGD):
    """Sharpness-aware minimization: steps by the gradients at the worst of the weights nearby."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor]) -> None:  # type: ignore[override]
        parameters = [each for group in self.param_groups for each in group["params"]]
        norm = torch.stack([each.grad.norm() for each in parameters]).norm()
        before = [each.clone() for each in parameters]
        for each in parameters:
            each.add_(RADIUS * each.grad / norm)
            each.grad = None
        with torch.enable_grad():
            closure().backward()
        for each, kept in zip(parameters, before, strict=True):
            each.copy_(kept)
        super().step()


RADIUS = 0.05


def loss_at_neighbour(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The same within the loss, as the error says."""
    own = dict(model.named_parameters())
    gradients = torch.autograd.grad(classify(model, x, y), list(own.values()))
    norm = torch.stack([each.norm() for each in gradients]).norm()
    moved = {name: own[name] + RADIUS * each / norm for name, each in zip(own, gradients, strict=True)}
    return cross_entropy(functional_call(model, moved, (x,)), y)


def test_a_step_that_takes_a_closure_is_refused_and_can_be_written_in_the_loss(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
    with pytest.raises(TrainingError, match=r"cannot be called without 'closure'.*functional_call"):
        export_training_step(model, AtNeighbour(model.parameters(), lr=0.1), classify, batches(5)[0])
    other, ((x, y), *_) = copy.deepcopy(model), batches(5)
    eager = AtNeighbour(other.parameters(), lr=0.1)
    classify(other, x, y).backward()
    eager.step(lambda: classify(other, x, y))
    plain = optim.SGD(model.parameters(), lr=0.1)
    session = opened(export_training_step(model, plain, loss_at_neighbour, (x, y)), tmp_path)
    session.step({"x": x.numpy(), "y": y.numpy()})
    for name, parameter in other.named_parameters():
        torch.testing.assert_close(torch.from_numpy(session.state()[f"param/{name}"]), parameter.detach())
    (tmp_path / "forced").mkdir()
    assert_teacher_forced(
        model,
        plain,
        loss_at_neighbour,
        batches(5, 7),
        tmp_path / "forced",
        steps=4,
        dynamic_shapes=({0: "n"}, {0: "n"}),
    )
