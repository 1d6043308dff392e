"""Checkpoints of `fxport.ort_runner.train.TrainingSession`: safetensors files whose names say what each tensor is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from fxport.exporter.weights.stored import Checkpoint, Stored

PARAMETER, BUFFER, OPTIMIZER = "param", "buffer", "opt"
"""First parts of names: `param/<fqn>`, `buffer/<fqn>`, `opt/<fqn>/<key>`."""


def checkpoint_of(path: Path, tensors: Mapping[str, Stored]) -> Checkpoint:
    """The checkpoint in a safetensors file; of a session's, weights and the optimizer's state by their own names."""
    parts = {name: name.partition("/") for name in tensors}
    kinds = {kind for kind, _, _ in parts.values()}
    if PARAMETER not in kinds or not kinds <= {PARAMETER, BUFFER, OPTIMIZER}:
        return Checkpoint(path, tensors)
    weights: dict[str, Stored] = {}
    optimizer: dict[tuple[str, str], Stored] = {}
    for name, (kind, _, rest) in parts.items():
        stored = replace(tensors[name], name=rest)
        if kind == OPTIMIZER:
            parameter, _, key = rest.rpartition("/")
            optimizer[parameter, key] = stored
        else:
            weights[rest] = stored
    return Checkpoint(path, weights, optimizer, all_buffers=True)
