"""The files of a training step: the model, the state that it begins with, and a graph for evaluation, as one save."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx_ir as ir
import safetensors.torch
import torch

from fxport.exporter.onnx_program.in_place import COMPANIONS, HASH, SAVED
from fxport.exporter.onnx_program.save import Beside, weight_bytes

STATE, EVALUATION = COMPANIONS


def beside_a_step(state: Mapping[str, torch.Tensor], evaluation: ir.Model | None, save: str) -> Sequence[Beside]:
    """The files beside the model of a step, which belong to the save of this number."""

    def write(draft: Path) -> None:
        tensors = {name: value.contiguous() for name, value in state.items()}
        safetensors.torch.save_file(tensors, draft, {SAVED: save})

    size = sum(tensor.nbytes for tensor in state.values())
    found = [Beside(STATE, write, size)]
    return found if evaluation is None else [*found, Beside(EVALUATION, evaluation, weight_bytes(evaluation))]


@contextmanager
def numbered(model: ir.Model, state: Mapping[str, torch.Tensor], evaluation: ir.Model | None) -> Iterator[None]:
    """Have the number of a save in the metadata of models during the block: a hash of all of its files."""
    models = [model, *([] if evaluation is None else [evaluation])]
    number = _hash_of(models, state)
    for each in models:
        each.metadata_props[SAVED] = number
    try:
        yield
    finally:
        for each in models:
            del each.metadata_props[SAVED]


def _hash_of(models: Sequence[ir.Model], state: Mapping[str, torch.Tensor]) -> str:
    """Begins with the digits of a SHA-256 of graphs, metadata, weights and state."""
    digest = hashlib.sha256()
    for model in models:
        digest.update(repr(sorted(model.metadata_props.items())).encode())
        for function in model.functions.values():
            digest.update(ir.to_proto(function).SerializeToString(deterministic=True))
        for graph in model.graphs():
            for node in graph:
                digest.update(ir.to_proto(node).SerializeToString(deterministic=True))
            for name, value in graph.initializers.items():
                digest.update(name.encode())
                if value.const_value is not None:
                    digest.update(value.const_value.tobytes())
    for name, tensor in state.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:HASH]
