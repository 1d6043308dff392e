"""State between ONNX Runtime and a PyTorch model with its optimizer, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from fxport.exporter.training.optimizers import UNTOUCHED
from fxport.exporter.training.parts import Parts
from fxport.exporter.training.step import BUFFER, OPTIMIZER, PARAMETER, state_of
from fxport.exporter.weights.arrays import as_array, as_tensor


def state_from(model: torch.nn.Module, optimizer: Optimizer | Sequence[Optimizer]) -> dict[str, np.ndarray]:
    """The state of a model and its optimizer by the names of the step's inputs, as `TrainingSession.load` takes it.

    So a checkpoint of PyTorch's goes on in ONNX Runtime: load it into both first. Raises OptimizerError as the export.
    """
    return {
        name: as_array(value) for name, value in state_of(Parts(model, optimizer, torch.nn.Module.__call__)).items()
    }


def load_into(
    model: torch.nn.Module, optimizer: Optimizer | Sequence[Optimizer] | None, state: Mapping[str, Any]
) -> None:
    """Copies a state, arrays or tensors by the names of the step's inputs, into the model and its optimizers.

    What SGD with dampening has not begun yet, it begins in its next step, as PyTorch does. Raises KeyError if the model
    has a parameter or a buffer that the state lacks.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_tensor(state[f"{PARAMETER}/{name}"]))
        for name, buffer in model.named_buffers():
            buffer.copy_(_tensor(state[f"{BUFFER}/{name}"]))
    if optimizer is None:
        return
    named = dict(model.named_parameters())
    parts = Parts(model, optimizer, torch.nn.Module.__call__)
    states = {id(p): each.state for each in parts.optimizers for group in each.param_groups for p in group["params"]}
    for name, value in state.items():
        kind, _, rest = name.partition("/")
        if kind != OPTIMIZER:
            continue
        parameter, _, key = rest.rpartition("/")
        if float(np.max(state.get(f"{OPTIMIZER}/{parameter}/{UNTOUCHED}", 0.0))) > 0:
            states[id(named[parameter])].pop(named[parameter], None)
        elif key != UNTOUCHED:
            held = states[id(named[parameter])][named[parameter]]
            value = _as_held(key, _tensor(value), named[parameter])
            held[key] = type(held[key])(value.item()) if isinstance(held.get(key), (int, float)) else value


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else as_tensor(np.asarray(value))


def _as_held(key: str, value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """A copy in the parameter's dtype, as Optimizer.load_state_dict makes it; a count of steps keeps its own."""
    fits = key == "step" or not value.is_floating_point() or not parameter.is_floating_point()
    return value.clone() if fits else value.to(parameter.dtype, copy=True)
