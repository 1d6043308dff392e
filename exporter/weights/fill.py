"""The weights of a checkpoint in the PyTorch model, so that it runs: mapped from the files, where they can be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from fxport.exporter.weights.assign import owner_of
from fxport.exporter.weights.stored import Region, Stored
from fxport.fx_passes.program import Program

MEMORY = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")
"""Folder of Linux's control groups, with the memory limit of this group of processes."""


def fill(model: torch.nn.Module | torch.export.ExportedProgram, program: Program) -> Program:
    """Puts the values that an export took from a checkpoint into the model; returns the program with them.

    Weights that lie in a file in the type of the model are mapped: the system reads them when the model runs, and drops
    them again when memory is short. Others are read and converted.
    """
    others = owner_of(model).others
    filled: dict[str, torch.Tensor] = {}
    for target, source in program.sources.items():
        held = program.tensors[target]
        value = _mapped(source, held) if isinstance(source, Stored) else None
        value = source.read().to("cpu" if held.is_meta else held.device, held.dtype) if value is None else value
        filled[target] = value
        if isinstance(model, torch.export.ExportedProgram):
            model.state_dict.update(dict.fromkeys((target, *others.get(target, ())), value))
            continue
        value = torch.nn.Parameter(value, requires_grad=False) if isinstance(held, torch.nn.Parameter) else value
        for name in {target, *others.get(target, ())}:
            owner, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(owner), attribute, value)
    return replace(program, tensors={**program.tensors, **filled}, sources={})


def memory_to_run(program: Program) -> int:
    """Bytes that running the model needs beside what is in files: what PyTorch copies, and what ONNX Runtime packs."""
    weights = copied = 0
    for target, held in program.tensors.items():
        source, size = program.sources.get(target), held.numel() * held.element_size()
        weights += size
        if source is not None and (not isinstance(source, Stored) or _region(source, held) is None):
            copied += size
    return weights + copied


def available_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    if not MEMORY.exists():
        return None
    lines = dict(line.split(":", 1) for line in MEMORY.read_text(encoding="ascii").splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = GROUP / "memory.max", GROUP / "memory.current"
    if limit.exists() and used.exists() and (most := limit.read_text(encoding="ascii").strip()) != "max":
        free = min(free, int(most) - int(used.read_text(encoding="ascii")))
    return free


def _region(stored: Stored, held: torch.Tensor) -> Region | None:
    """Return the region from which the values can be mapped: in the model's dtype, at a multiple of its size."""
    region = stored.region
    fits = region is not None and stored.dtype == held.dtype and region.offset % stored.dtype.itemsize == 0
    return region if fits and stored.nbytes else None


def _mapped(stored: Stored, held: torch.Tensor) -> torch.Tensor | None:
    region = _region(stored, held)
    if region is None:
        return None
    end = region.offset + region.length
    whole = torch.from_file(str(region.path), shared=False, size=end, dtype=torch.uint8)
    return whole[region.offset :].view(stored.dtype).reshape(stored.shape)
