"""Wrappers around models: what is inside of them is captured."""

from __future__ import annotations

from typing import Any

import torch

from fxport.exporter.distributed import is_replicated, wrapped_by
from fxport.exporter.pipeline.private import DISTRIBUTED
from fxport.fx_passes.private import verify


def unwrapped(model: Any) -> torch.nn.Module:
    """Return the module inside of wrappers that change how a model is trained or compiled, but not what it computes.

    Where a wrapper stands further inside, or has hooks, it is a new module without any, with the model's own tensors.
    """
    while (attribute := wrapped_by(model)) is not None and not (model._forward_hooks or model._forward_pre_hooks):
        model = getattr(model, attribute)
    if not isinstance(model, torch.nn.Module) or not any(map(_is_wrapped, model.modules())):
        return model
    verify(DISTRIBUTED)
    from fxport.exporter.distributed.skeleton import skeleton_of

    return skeleton_of(model).module


def _is_wrapped(module: torch.nn.Module) -> bool:
    return wrapped_by(module) is not None or is_replicated(type(module))
