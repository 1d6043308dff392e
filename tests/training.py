"""Train in ONNX Runtime and in eager PyTorch side by side, and compare what they come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn, optim
from torch.nn.functional import cross_entropy
from torch.utils import _pytree as pytree

from exporter.training import TrainingProgram, export_training_step
from exporter.training.seeded import SeededRandom
from ort_runner.train import TrainingSession

Batch = tuple[Any, ...]


def classify(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return cross_entropy(model(x), y)


def batches(*sizes: int, shape: Sequence[int] = (8,), classes: int = 4) -> list[Batch]:
    return [(torch.randn(n, *shape), torch.randint(0, classes, (n,))) for n in sizes]


def fed(names: Sequence[str], batch: Batch) -> dict[str, np.ndarray]:
    leaves = [leaf.numpy() for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    return dict(zip(names, leaves, strict=True))


def opened(program: TrainingProgram, folder: Path) -> TrainingSession:
    program.save(folder / "step.onnx")
    return TrainingSession(folder / "step.onnx", provider="cpu")


def assert_teacher_forced(
    model: nn.Module,
    optimizer: optim.Optimizer,
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
    context = how.get("context", nullcontext)
    for number in range(steps):
        batch = data[number % len(data)]
        results = session.step(fed(names, batch))
        optimizer.zero_grad()
        with context():
            with SeededRandom(torch.tensor(number)):
                loss = loss_fn(model, *batch)
            loss.backward()
        optimizer.step()
        np.testing.assert_allclose(results["loss"], loss.detach().numpy(), rtol=tol, atol=tol)
        state = session.state()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            key = f"{'param' if isinstance(tensor, nn.Parameter) else 'buffer'}/{name}"
            np.testing.assert_allclose(state[key], tensor.detach().numpy(), rtol=tol, atol=tol, err_msg=name)
            state[key] = tensor.detach().numpy()
        for name, parameter in model.named_parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    state[f"opt/{name}/{key}"] = value.numpy()
        session.load(state, session.steps)
    return program
