"""The weights of a captured program, taken by name from a checkpoint; what does not fit becomes a finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from fxport.diagnostics import Fix, Level, Log, Place, rules
from fxport.diagnostics.source import USER, kind_of
from fxport.exporter.capture.fake import has_no_values
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.weights.names import AmbiguousPrefix, Names, Renaming, names_of, starred
from fxport.exporter.weights.stored import Checkpoint, CheckpointError, Stored
from fxport.fx_passes.program import InputKind, Program

CONVERTED = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""Types between which values are converted: all others, such as packed integers, mean something else."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The names of a model's weights. `others` are further names of the same tensor, where weights are tied."""

    module: torch.nn.Module | None
    state: frozenset[str]
    others: Mapping[str, tuple[str, ...]]
    outside: frozenset[str] = frozenset()
    """Buffers that are not in the state dict."""

    def takes(self, name: str, checkpoint: Checkpoint) -> bool:
        """Return True for a weight that the checkpoint is asked for."""
        return name in self.state or (checkpoint.all_buffers and name in self.outside)

    def place(self, name: str) -> Place | None:
        """The user's module that holds a weight; None where that is a library's."""
        if self.module is None:
            return None
        place = place_of_module(self.module, name.rpartition(".")[0])
        return place if place is not None and kind_of(place.path) == USER else None


def owner_of(model: torch.nn.Module | torch.export.ExportedProgram) -> Owner:
    """The names of all parameters and buffers of a model, and which of them are one tensor."""
    if isinstance(model, torch.export.ExportedProgram):
        held, state, module = dict(model.state_dict), frozenset(model.state_dict), None
    else:
        held = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
        state, module = frozenset(model.state_dict(keep_vars=True)), model
    alike: dict[int, list[str]] = {}
    for name, tensor in held.items():
        alike.setdefault(id(tensor), []).append(name)
    others = {name: tuple(names) for names in alike.values() if len(names) > 1 for name in names}
    return Owner(module, state, others, frozenset(held) - state)


def with_weights(program: Program, owner: Owner, checkpoint: Checkpoint, log: Log) -> Program:
    """The program with a source for each weight that the checkpoint has.

    Reports, as errors, weights that it lacks or has in another shape; and tensors that no weight of the model takes.
    Raises CheckpointError where the names fit under more than one prefix.
    """
    names = names_in(owner, checkpoint)
    used = [node.users for node in program.placeholders]
    sources: dict[str, Stored] = {}
    converted: Counter[tuple[str, str]] = Counter()
    for entry, users in zip(program.inputs, used, strict=True):
        if entry.kind is InputKind.USER or entry.target is None:
            continue
        target, held = entry.target, program.tensors[entry.target]
        if not owner.takes(target, checkpoint) and not has_no_values(held):
            continue  # a constant, or a buffer that is no part of a checkpoint
        key = names.key_of(target, owner.others)
        if key is None:
            if users and target in owner.state:
                own = not isinstance(held, torch.nn.Parameter) and not has_no_values(held)
                report_missing(target, owner, names, checkpoint, log, has_own=own)
            continue
        stored = checkpoint.tensors[key]
        if not fits(stored, held):
            report_mismatch(target, stored, held, owner.place(target), log)
            continue
        if stored.dtype != held.dtype:
            converted[_short(stored.dtype), _short(held.dtype)] += 1
        sources[target] = stored
    for (old, new), count in converted.items():
        both = f"{old} to {new}"  # a name, by which two such findings are told apart
        log.report(rules.WEIGHTS_CONVERTED, name=both, source=old, target=new, weights=count)
    report_unused(owner, names, checkpoint, log)
    return replace(program, sources=sources)


def names_in(owner: Owner, checkpoint: Checkpoint) -> Names:
    """The names of a checkpoint as a model asks for them. Raises CheckpointError where several prefixes fit."""
    try:
        return names_of(owner.state, checkpoint.tensors)
    except AmbiguousPrefix as error:
        raise CheckpointError(
            f"'{checkpoint.path}' has the model's names under more than one prefix: {error}; give one of one model."
        ) from error


def fits(stored: Stored, held: torch.Tensor) -> bool:
    """Return True if a stored tensor has the shape of the model's, and a dtype that can be converted to its own."""
    same = stored.dtype == held.dtype or {stored.dtype, held.dtype} <= CONVERTED
    return same and stored.shape == tuple(held.shape)


def report_mismatch(name: str, stored: Stored, held: torch.Tensor, at: Place | None, log: Log) -> None:
    """A tensor of the checkpoint that does not fit."""
    expected, found = _typed(held.dtype, tuple(held.shape)), _typed(stored.dtype, stored.shape)
    log.report(rules.WEIGHT_MISMATCH, at=at, name=starred(name), expected=expected, found=found, key=stored.name)


OTHER_CHECKPOINT = Fix("Give the checkpoint of this model, or rename its keys and save it again.")


def report_missing(
    target: str, owner: Owner, names: Names, checkpoint: Checkpoint, log: Log, *, has_own: bool = False
) -> None:
    """An error, unless it is a buffer whose own value serves, such as one that a newer version of a model has."""
    near = names.nearest(target)
    log.report(
        rules.WEIGHT_MISSING,
        at=owner.place(target),
        level=Level.WARNING if has_own else None,
        fixes=() if near else (OTHER_CHECKPOINT,),
        name=starred(target),
        path=str(checkpoint.path),
        nearest=near,
        there=f"the nearest name there is '{near}'" if near else "no name there is like it",
    )


def report_unused(owner: Owner, names: Names, checkpoint: Checkpoint, log: Log) -> None:
    """Tensors that the model has no place for. Where it is a part of what was saved, the rest is no mistake."""
    taken = {names.find(name) for name in (*owner.state, *(owner.outside if checkpoint.all_buffers else ()))}
    renaming = names.renaming
    for key in checkpoint.tensors:
        if key not in taken and key.startswith(renaming.added):
            log.report(rules.WEIGHT_UNUSED, name=starred(key), path=str(checkpoint.path))
    if renaming != Renaming():
        name = next(name for name in sorted(owner.state) if names.find(name) is not None)
        log.report(rules.WEIGHTS_RENAMED, name=name, key=names.find(name))


def _typed(dtype: torch.dtype, shape: tuple[int, ...]) -> str:
    return f"{_short(dtype)} {list(shape)}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
