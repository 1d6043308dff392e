"""Train in ONNX Runtime and in eager PyTorch side by side, and compare what they come to."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn, optim
from torch.nn.functional import cross_entropy
from torch.utils import _pytree as pytree

from fxport.exporter.training import TrainingProgram, export_training_step, load_into
from fxport.exporter.training.parts import Parts
from fxport.exporter.training.seeded import SeededRandom
from fxport.exporter.training.step import state_of
from fxport.ort_runner.train import TrainingSession
from tests.cases.training import Task

Batch = tuple[Any, ...]


def classify(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return cross_entropy(model(x), y)


def batches(*sizes: int, shape: Sequence[int] = (8,), classes: int = 4) -> list[Batch]:
    drawn = torch.Generator().manual_seed(0)  # the same in every run: rounding of some data is more than of others
    return [(torch.randn(n, *shape, generator=drawn), torch.randint(0, classes, (n,), generator=drawn)) for n in sizes]


def fed(names: Sequence[str], batch: Batch) -> dict[str, np.ndarray]:
    leaves = [leaf.numpy() for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    return dict(zip(names, leaves, strict=True))


def opened(program: TrainingProgram, folder: Path) -> TrainingSession:
    program.save(folder / "step.onnx")
    return TrainingSession(folder / "step.onnx", provider="cpu")


def assert_teacher_forced(
    model: nn.Module,
    optimizer: optim.Optimizer | Sequence[optim.Optimizer],
    loss_fn: Callable[..., torch.Tensor],
    data: Sequence[Batch],
    folder: Path,
    steps: int = 20,
    tol: float = 2e-5,
    **how: Any,
) -> TrainingProgram:
    """Each step begins at eager PyTorch's own state: a small error of one step cannot hide in, or grow by, the next."""
    program = export_training_step(model, optimizer, loss_fn, data[0], **how)
    names = [name for value in program.model.graph.inputs if (name := str(value.name)).startswith("batch/")]
    session = opened(program, folder)
    optimizers = Parts(model, optimizer, loss_fn).optimizers
    context = how.get("context", nullcontext)
    for number in range(steps):
        batch = data[number % len(data)]
        results = session.step(fed(names, batch))
        for each in optimizers:
            each.zero_grad()
        with context():
            with SeededRandom(torch.tensor(number)):
                loss = loss_fn(model, *batch)
            loss.backward()
        for each in optimizers:
            each.step()
        np.testing.assert_allclose(results["loss"], loss.detach().numpy(), rtol=tol, atol=tol)
        state = session.state()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            key = f"{'param' if isinstance(tensor, nn.Parameter) else 'buffer'}/{name}"
            np.testing.assert_allclose(state[key], tensor.detach().numpy(), rtol=tol, atol=tol, err_msg=name)
            state[key] = tensor.detach().numpy()
        held_by = {id(p): each.state for each in optimizers for group in each.param_groups for p in group["params"]}
        for name, parameter in model.named_parameters():
            for key, value in held_by.get(id(parameter), {}).get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    held = f"opt/{name}/{key}"
                    np.testing.assert_allclose(state[held], value.numpy(), rtol=tol, atol=tol, err_msg=held)
                    state[held] = value.numpy()
        session.load(state, session.steps)
    return program


MAKERS: Mapping[str, Callable[[Any], optim.Optimizer]] = {
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9),
    "AdamW": lambda p: optim.AdamW(p, lr=1e-3),
}

OPTIMIZERS: Mapping[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "dampening": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": lambda p: optim.Adam(p),
    "amsgrad": lambda p: optim.Adam(p, amsgrad=True, weight_decay=0.1, maximize=True),
    "adamw": lambda p: optim.AdamW(p),
    "nadam": lambda p: optim.NAdam(p),
    "radam": lambda p: optim.RAdam(p),
    "adamax": lambda p: optim.Adamax(p),
    "adagrad": lambda p: optim.Adagrad(p, initial_accumulator_value=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "rmsprop": lambda p: optim.RMSprop(p, momentum=0.9, centered=True),
    "rprop": lambda p: optim.Rprop(p),
    "asgd": lambda p: optim.ASGD(p),
    "adafactor": lambda p: optim.Adafactor(p),
    "muon": lambda p: optim.Muon([w for w in p if w.dim() == 2]),
}
"""All that are trained beside PyTorch's own, on small models."""

LIMIT = 10.0
"""The largest `Noise.ratio`: errors that rounding brings scatter by as much from state to state."""


@dataclass(frozen=True)
class Noise:
    """How far single float32 steps are from steps in float64 that begin at the same state.

    `runtime` and `eager` are the largest errors of any parameter, `loss` that of ONNX Runtime's loss. Eager PyTorch
    runs twice, once from parameters that differ by one rounding, and its larger error counts. `ratio` compares the
    worst error of each state in ONNX Runtime with that in eager PyTorch, and is the largest of all states.
    """

    runtime: float
    eager: float
    loss: float
    ratio: float
    nodes: int


def noise_of(task: Task, make: Callable[[Any], optim.Optimizer], folder: Path, steps: int) -> Noise:
    """Steps of ONNX Runtime and of eager PyTorch, each from eager's last state, against float64 from there."""
    model, exact_model = task.model.train(), copy.deepcopy(task.model).train().double()
    eager, exact = (Parts(each, make(list(each.parameters())), task.loss) for each in (model, exact_model))
    program = export_training_step(
        model, eager.optimizer, task.loss, task.batches[0], dynamic_shapes=task.dynamic_shapes
    )
    names = [name for value in program.model.graph.inputs if (name := str(value.name)).startswith("batch/")]
    session = opened(program, folder)
    largest: dict[str, np.ndarray] = {}
    losses = []
    for number in range(steps):
        batch, begun = task.batches[number % len(task.batches)], session.state()
        loss = float(session.step(fed(names, batch))["loss"])
        got = session.state()
        _, nearby = one_step(eager, _nudged(begun), batch, number)
        _, state = one_step(eager, begun, batch, number)
        widened = pytree.tree_map_only(torch.Tensor, lambda x: x.double() if x.is_floating_point() else x, batch)
        true_loss, truth = one_step(exact, begun, widened, number)
        losses.append(abs(loss - true_loss))
        for name, want in truth.items():
            floor = max(_far(state[name], want), _far(nearby[name], want))
            found = np.array([_far(got[name], want), floor, _far(want, np.zeros_like(want))])
            largest[name] = np.maximum(found, largest.get(name, 0.0))
        session.load({name: value.astype(got[name].dtype) for name, value in state.items()}, session.steps)
    parameters = [errors for name, errors in largest.items() if name.startswith("param/")]
    rounding = float(np.finfo(np.float32).eps)
    return Noise(
        runtime=max(float(runtime) for runtime, _, _ in parameters),
        eager=max(float(floor) for _, floor, _ in parameters),
        loss=max(losses),
        ratio=max(float(runtime / (floor + rounding * size + 1e-30)) for runtime, floor, size in largest.values()),
        nodes=len(program.model.graph),
    )


def _nudged(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state with parameters that are rounded otherwise: each moved by as much as rounding may move it."""
    signs = np.random.default_rng(0)
    rounding = np.finfo(np.float32).eps
    return {
        name: (value * (1 + rounding * signs.choice([-1, 1], value.shape))).astype(value.dtype)
        if name.startswith("param/")
        else value
        for name, value in state.items()
    }


def _far(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()) if b.size else 0.0


def one_step(
    parts: Parts, state: Mapping[str, np.ndarray], batch: Batch, number: int
) -> tuple[float, dict[str, np.ndarray]]:
    """The loss, and the state after one eager step from another one."""
    load_into(parts.model, parts.optimizer, state)
    parts.optimizer.zero_grad()
    with SeededRandom(torch.tensor(number)):
        loss = parts.loss_fn(parts.model, *batch)
    loss.backward()
    parts.optimizer.step()
    return loss.item(), {name: value.numpy() for name, value in state_of(parts).items()}
