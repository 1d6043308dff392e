"""The state of a training step from a checkpoint: parameters, buffers, and what the optimizer remembers of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from fxport.diagnostics import Level, Log, rules
from fxport.exporter.training.optimizers import UNTOUCHED
from fxport.exporter.training.parts import Parts
from fxport.exporter.training.step import BUFFER, OPTIMIZER, PARAMETER
from fxport.exporter.weights.assign import (
    Owner,
    fits,
    names_in,
    owner_of,
    report_mismatch,
    report_missing,
    report_unused,
)
from fxport.exporter.weights.names import names_of, starred
from fxport.exporter.weights.stored import Checkpoint, Stored

Tensors = dict[str, torch.Tensor]


def resumed(state: Mapping[str, torch.Tensor], parts: Parts, checkpoint: Checkpoint, log: Log) -> Tensors:
    """The state with the values of a checkpoint, in the types of the model.

    Reports, as errors, weights and state that it lacks or has in another shape; as warnings, what the step does not
    take, and a checkpoint without any state of an optimizer, whose initial values then stand.
    """
    new = dict(state)
    owner = owner_of(parts.model)
    names = names_in(owner, checkpoint)
    for name, held in state.items():
        kind, _, target = name.partition("/")
        if kind not in (PARAMETER, BUFFER) or not owner.takes(target, checkpoint):
            continue
        key = names.key_of(target, owner.others)
        if key is None:
            report_missing(target, owner, names, checkpoint, log, has_own=kind == BUFFER)
        else:
            _take(new, name, checkpoint.tensors[key], held, owner, target, log)
    report_unused(owner, names, checkpoint, log)
    _resume_optimizer(new, parts, owner, checkpoint, log)
    return new


def _resume_optimizer(new: Tensors, parts: Parts, owner: Owner, checkpoint: Checkpoint, log: Log) -> None:
    wanted = {name: _split(name) for name in new if name.startswith(f"{OPTIMIZER}/")}
    stored = _by_name(parts, checkpoint.optimizer)
    begun = {name for name, (_, key) in wanted.items() if key == UNTOUCHED}
    if stored and not any(key == UNTOUCHED for _, key in stored):  # PyTorch's own, where it is known by the momentum
        new.update({name: torch.tensor(0.0) for name in begun})
        wanted = {name: each for name, each in wanted.items() if name not in begun}
    path = str(checkpoint.path)
    if not stored:
        if wanted:
            log.report(rules.WEIGHT_MISSING, level=Level.WARNING, name=OPTIMIZER, path=path, nearest="none")
        return
    names = names_of({target for target, _ in wanted.values()}, {target for target, _ in stored})
    taken = set()
    for name, (target, key) in wanted.items():
        there = (names.key_of(target, owner.others) or target, key)
        taken.add(there)
        if there not in stored:
            nearest = names.nearest(target) or "none"
            log.report(rules.WEIGHT_MISSING, at=owner.place(target), name=starred(name), path=path, nearest=nearest)
        else:
            _take(new, name, stored[there], new[name], owner, target, log)
    for target, key in stored:
        if (target, key) not in taken:
            log.report(rules.WEIGHT_UNUSED, name=starred(f"{OPTIMIZER}/{target}/{key}"), path=path)


def _take(new: Tensors, name: str, stored: Stored, held: torch.Tensor, owner: Owner, target: str, log: Log) -> None:
    if fits(stored, held):
        new[name] = stored.read().to(held.dtype)
    else:
        report_mismatch(name, stored, held, owner.place(target), log)


def _split(name: str) -> tuple[str, str]:
    """`opt/<parameter>/<key>` → (parameter, key)."""
    target, _, key = name.removeprefix(f"{OPTIMIZER}/").rpartition("/")
    return target, key


def _by_name(parts: Parts, stored: Mapping[tuple[str, str], Stored]) -> Mapping[tuple[str, str], Stored]:
    """The state by names of parameters. `Optimizer.state_dict()` has numbers: theirs in the order of the groups."""
    if not all(target.isdigit() for target, _ in stored):
        return stored
    order = [parts.names[id(p)] for group in parts.groups for p in group["params"]]
    found = {}
    for (number, key), each in stored.items():
        target = order[int(number)] if int(number) < len(order) else number
        found[target, key] = replace(each, name=f"{target}.{key}")
    return found
