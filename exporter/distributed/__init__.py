"""Models that several processes hold together. Ordinary exports import nothing of this package but this file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fxport.exporter.pipeline.private import WRAPPERS
from fxport.fx_passes.private import verify

verify(WRAPPERS)

SHARDED = (("torch.distributed.tensor", "DTensor"), ("torch.distributed.fsdp", "FlatParameter"))
"""Modules and types of sharded tensors, of which a process holds a part; without the module there are none."""


def is_sharded(model: Any) -> bool:
    """Return True if another process holds a part of the model, so that all of them must take part in an export."""
    kinds = tuple(_kinds())
    if not kinds or not isinstance(model, torch.nn.Module):
        return False
    if any(isinstance(module, _wrappers()) for module in model.modules()):
        return True
    return any(isinstance(tensor, kinds) for tensor in (*model.parameters(), *model.buffers()))


def wrapped_by(module: Any) -> str | None:
    """The attribute with the module that a wrapper stands around, of data parallelism, torch.compile or checkpoints.

    None for a module that is no such wrapper. Each process holds the whole of what they wrap.
    """
    return next((attribute for kind, attribute in _whole().items() if isinstance(module, kind)), None)


def is_replicated(cls: type) -> bool:
    """Return True if `torch.distributed._composable.replicate` made this class from one of the model's own."""
    return cls.__module__.startswith("torch.distributed._composable")


def _whole() -> Mapping[type, str]:
    checkpoints = sys.modules.get("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    return {
        torch.nn.DataParallel: "module",
        torch.nn.parallel.DistributedDataParallel: "module",
        torch._dynamo.OptimizedModule: "_orig_mod",
    } | ({checkpoints.ActivationWrapper: "_checkpoint_wrapped_module"} if checkpoints is not None else {})


def _kinds() -> Iterator[type]:
    for module, name in SHARDED:
        if module in sys.modules:
            yield getattr(sys.modules[module], name)


def _wrappers() -> tuple[type, ...]:
    """FSDP1 and FSDP2 by their modules: after a forward they may hold whole parameters for a while."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    return (fsdp.FullyShardedDataParallel, fsdp.FSDPModule) if fsdp is not None else ()
