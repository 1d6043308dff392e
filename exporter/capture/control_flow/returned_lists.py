"""Lists of a dynamic number of elements that the model returns: no model of ONNX has so many outputs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fxport.exporter.capture.arguments.structures import register_dataclasses
from fxport.exporter.capture.control_flow.lists import ScanList
from fxport.exporter.capture.control_flow.merging import LoopError
from fxport.exporter.capture.forward import forward_by

RETURNED = "forward returns a list whose length sizes or data tell: return one tensor, by torch.stack or torch.cat"


def returned_lists_refused(module: torch.nn.Module) -> AbstractContextManager[None]:
    """Raise LoopError while the model is captured where it returns a list of a dynamic number of elements."""

    def call(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        register_dataclasses(result)
        if any(isinstance(leaf, ScanList) and leaf.is_dynamic for leaf in pytree.tree_leaves(result)):
            raise LoopError(RETURNED)
        return result

    return forward_by(module, call)
