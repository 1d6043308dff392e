"""One ONNX model for each rank of a tensor-parallel model: its own parts of the weights, with collectives between."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.func import functional_call
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log
from fxport.exporter.capture.places import Around
from fxport.exporter.distributed.collectives import TORCH, lowerings
from fxport.exporter.onnx_program import OnnxProgram
from fxport.exporter.pipeline.exporting import export
from fxport.exporter.pipeline.options import Options

BELOW_AUTOGRAD = "post-dispatch"
"""The strategy of capture that sees what DTensor does: local operators, and collectives between them."""


def export_per_rank(
    model: torch.nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    domain: str = TORCH,
    options: Options = Options(),  # noqa: B008  # frozen
    log: Log | None = None,
) -> OnnxProgram:
    """Exports what this rank computes of a model under `parallelize_module`; called on each rank, without waiting.

    Collectives become nodes of `domain`, with the ranks that take part as an attribute;
    `fxport.ort_runner.distributed` runs such a model. Save it under a name of the rank's own. Raises ExportError as
    `export` does, and ValueError for a domain that is not known.
    """
    wanted = replace(options, strategy=BELOW_AUTOGRAD, lowerings={**lowerings(domain), **options.lowerings})
    return export(_Local(model), args, kwargs, dynamic_shapes=dynamic_shapes, options=wanted, log=log)


class _Local(Around):
    """A model whose weights are the local parts of another's, under the same names.

    Its forward puts them together to what they are parts of, so that the other model runs as it is.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.train(model.training)
        kept: dict[int, torch.Tensor] = {}
        spread: dict[str, Any] = {}
        state = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
        for name, tensor in state:
            if isinstance(tensor, DTensor):
                spread[name] = tensor
            local = kept.setdefault(id(tensor), _local(tensor))
            _put(self, name, local)

        @functools.wraps(model.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            held = {name: _get(self, name) for name, _ in state}
            given = {name: _spread(local, spread[name]) if name in spread else local for name, local in held.items()}
            result = functional_call(model, given, args, kwargs, tie_weights=False)
            return pytree.tree_map_only(DTensor, lambda tensor: tensor.full_tensor(), result)

        self.forward = forward


def _local(tensor: torch.Tensor) -> torch.Tensor:
    if not isinstance(tensor, DTensor):
        return tensor
    local = tensor.to_local().detach()
    return torch.nn.Parameter(local, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else local


def _spread(local: torch.Tensor, tensor: DTensor) -> DTensor:
    return DTensor.from_local(
        local, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def _put(owner: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Registers a weight under a name with dots, in modules that hold nothing else."""
    *path, last = name.split(".")
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, torch.nn.Module())
        owner = owner.get_submodule(part)
    if isinstance(tensor, torch.nn.Parameter):
        owner.register_parameter(last, tensor)
    else:
        owner.register_buffer(last, tensor)


def _get(owner: torch.nn.Module, name: str) -> torch.Tensor:
    path, _, last = name.rpartition(".")
    return getattr(owner.get_submodule(path), last)
