"""State that a step would carry to the next one outside of its tensors, which a graph cannot: refused at its line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from fxport.diagnostics import Place, rules
from fxport.diagnostics.calls import last_naming, last_setting
from fxport.diagnostics.source import USER, kind_of, lines_of
from fxport.exporter.capture.faults import RefusedError
from fxport.exporter.capture.holders import MEMBERS, MISSING
from fxport.exporter.capture.knowledge import version
from fxport.exporter.capture.patches.outside import Effect, effect_of, place_of_effect
from fxport.exporter.capture.places import place_of_function
from fxport.exporter.capture.snapshot import Change, Snapshot
from fxport.exporter.training.own_tensors import OwnTensors

IN_MODEL = (
    "Make it a buffer of the model, a new value of which goes from step to step; return what is only looked at beside "
    "the loss; what is set once and for all is set by one step in PyTorch before the export."
)
IN_OPTIMIZER = (
    "Keep it as a tensor in `optimizer.state[parameter]`, and compute with tensors; set learning rates between the "
    "steps, in `session.rates`."
)
RANDOM = "Draw with torch, whose random numbers follow the seed, or before the step, and pass them in the batch."
LAYER = "Make all layers in __init__."
MODE = (
    "Set the mode once before the export, as by `model.teacher.eval()`: the layer keeps it, and the same call in the "
    "loss then changes nothing. A mode that is for one call alone is set back behind it."
)
UNSCALED = "Leave the scaler out of the loss, and autocast to bfloat16, whose gradients need no scaling."

CURES: Mapping[type, str] = {LRScheduler: IN_OPTIMIZER, torch.amp.GradScaler: UNSCALED}
"""Cures of what objects of PyTorch's would carry, by their class."""


@contextmanager
def nothing_carried(model: torch.nn.Module, around: Mapping[str, Any], own: OwnTensors) -> Iterator[None]:
    """Put back what a step changes outside of its tensors, and raise RefusedError for what a later step could read.

    Args:
        model: The model.
        around: What else runs in a step, by name.
        own: Which tells what tensors are read.
    """
    state = Snapshot.of({"": model, **around})
    tensors = (value for holder, (_, values) in state.held if holder.kind is not MEMBERS for value in values)
    own.watched, own.read = frozenset(id(each) for each in tensors if isinstance(each, torch.Tensor)), set()
    try:
        yield
        for change in state.changes():
            if _is_carried(change, own):
                owner = change.holder.owner
                known = next((cure for kind, cure in CURES.items() if isinstance(owner, kind)), None)
                cure = known or (IN_OPTIMIZER if change.name.startswith("optimizer.") else _cure_in_model(change))
                effect = effect_of(change) or Effect(rules.STATE_LOST, change.name, None, change.holder, change.key)
                _refuse(change, place_of_effect(model, effect, [*state.functions()]), cure)
    finally:
        state.restore()


@contextmanager
def nothing_kept_by(optimizer: Optimizer, own: OwnTensors) -> Iterator[None]:
    """Raise RefusedError for what the step of an optimizer changes in its groups and attributes beside its state."""
    groups = optimizer.param_groups
    held = [
        (group, key, value, version(value)) for group in groups for key, value in group.items() if _is_tensor(value)
    ]
    state = Snapshot.of({"optimizer": optimizer})
    own.watched |= {id(value) for _, _, value, _ in held}
    yield
    owners = {id(optimizer.state), *map(id, optimizer.state.values()), *(id(group["params"]) for group in groups)}
    for change in state.changes():
        if id(change.holder.owner) not in owners and _is_carried(change, own):
            _refuse(change, place_in(optimizer, change.key if isinstance(change.key, str) else "state"), IN_OPTIMIZER)
    for _, key, value, seen in held:
        if version(value) != seen:
            raise RefusedError(_reason(f"group[{key!r}]"), place=place_in(optimizer, key), cure=IN_OPTIMIZER)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_carried(change: Change, own: OwnTensors) -> bool:
    """Return True if the next step could find what this one has left."""
    if not _is_tensor(change.before):
        return effect_of(change) is not None
    if change.holder.kind is MEMBERS:
        return change.after is not own.values.get(id(change.before))
    return id(change.before) in own.read or change.after is MISSING


def _cure_in_model(change: Change) -> str:
    return MODE if change.key == "training" and isinstance(change.holder.owner, torch.nn.Module) else IN_MODEL


def _refuse(change: Change, place: Place | None, cure: str) -> NoReturn:
    effect = effect_of(change)
    rule = None if effect is None else effect.rule
    name = change.name if effect is None else effect.name
    cure = {rules.PYTHON_RANDOM_BAKED: RANDOM, rules.LAYER_MADE: LAYER}.get(rule, cure) if rule else cure
    raise RefusedError(_reason(name), place=place, cure=cure)


def _reason(name: str) -> str:
    return f"it changes '{name}', of which the next step would find the new value, and the graph has only this one"


def place_in(optimizer: Optimizer, name: str) -> Place | None:
    """Return the line that changes something in the optimizer's own step, or in a hook of the user's."""
    hooks = (*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values())
    places = [place_of_function(inspect.unwrap(each)) for each in (type(optimizer).step, *hooks)]
    own = [place for place in places if place is not None and kind_of(place.path) == USER]
    for at in own:
        text = "".join(lines_of(at.path))
        line = last_setting(text, at.line, {name}) or last_naming(text, at.line, {name})
        if line is not None:
            return replace(at, line=line)
    return own[0] if own else None
