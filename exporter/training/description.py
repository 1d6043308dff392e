"""Metadata of a training step's model, by which a session needs neither PyTorch nor the model's code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from fxport.exporter.training.parts import Parts
from fxport.exporter.training.step import BUFFER, NEW, OPTIMIZER, PARAMETER, RATE, Settings

METADATA = "fxport.training"
"""Key of the model's metadata: what `fxport.ort_runner.train` needs to run the step again and again."""


def description_of(
    parts: Parts,
    state: Sequence[str],
    produced: Sequence[str | None],
    rates: Mapping[str, torch.Tensor],
    steps: int,
    settings: Settings,
) -> dict[str, Any]:
    """The description of a step, as JSON takes it.

    `state`: the new value of each input that changes; `constant`: the other inputs that are state; `steps`: how many a
    run makes; `accumulate` and `clip_grad_norm`: the settings of one; `rates`: learning rates at the beginning;
    `model`: the input that has the value of each name of `model.state_dict()`; `groups`: names and settings of
    `optimizer.param_groups`, None where JSON does not hold them; `optimizers`: how many of them each of several
    optimizers has, None where one was given; `numbers`: state of an optimizer that PyTorch keeps as Python numbers.
    """
    changed = {name: new for name in state if (new := f"{NEW}/{name}") in produced}
    return {
        "state": changed,
        "steps": steps,
        "accumulate": settings.accumulate,
        "clip_grad_norm": settings.clip_grad_norm,
        "constant": [name for name in state if name not in changed],
        "rates": {f"{RATE}/{group}": float(rate) for group, rate in rates.items()},
        "model": _model_names(parts),
        "groups": _groups(parts),
        "optimizers": (
            None if isinstance(parts.optimizer, Optimizer) else [len(each.param_groups) for each in parts.optimizers]
        ),
        "numbers": [
            f"{OPTIMIZER}/{parts.names[id(parameter)]}/{key}"
            for optimizer in parts.optimizers
            for parameter, entries in optimizer.state.items()
            if id(parameter) in parts.names
            for key, value in entries.items()
            if isinstance(value, int | float)
        ],
    }


def _model_names(parts: Parts) -> dict[str, str]:
    """Names of `model.state_dict()` and the inputs with their values: those of tied parameters have one."""
    names = {key: f"{PARAMETER}/{name}" for key, name in parts.names.items()}
    names |= {id(buffer): f"{BUFFER}/{name}" for name, buffer in parts.model.named_buffers()}
    held = parts.model.state_dict(keep_vars=True)
    return {key: names[id(value)] for key, value in held.items() if id(value) in names}


def _groups(parts: Parts) -> list[dict[str, Any]] | None:
    groups = [
        {
            "params": [parts.names[id(parameter)] for parameter in group["params"]],
            "settings": {key: _plain(value) for key, value in group.items() if key != "params"},
        }
        for group in parts.groups
    ]
    try:
        json.dumps(groups)
    except TypeError:
        return None
    return groups


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def rates_of(parts: Parts) -> dict[str, torch.Tensor]:
    """The learning rate of every group, by its index."""
    return {
        str(index): torch.as_tensor(float(group["lr"]), dtype=torch.float32) for index, group in enumerate(parts.groups)
    }
