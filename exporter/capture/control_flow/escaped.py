"""Tensors of the trace that a part of a graph holds as if they were constants: the part reads what it was not given."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

from fxport.exporter.capture.control_flow.merging import LoopError

ESCAPED = "it reads a tensor that was made elsewhere in the trace, which a graph cannot be given there"

LENDING = (np.ndarray, array, bytearray)
"""Types of objects whose memory a tensor may have."""


def require_given(exported: ExportedProgram, has_fake_weights: Callable[[], bool]) -> ExportedProgram:
    """Return the program; raise LoopError if a tensor of the trace is among its constants.

    Args:
        exported: What was captured.
        has_fake_weights: Returns whether constants may be fake because those of the model are.
    """
    held = [*exported.constants.values(), *(getattr(gm, name, None) for gm, name in _attributes(exported))]
    if any(isinstance(each, FakeTensor) for each in held) and not has_fake_weights():
        raise LoopError(ESCAPED)
    return exported


def constants_owned(exported: ExportedProgram) -> ExportedProgram:
    """Return the program with copies of the constants whose memory is an array's, which is about to be put back."""
    exported.constants.update({name: _owned(each) for name, each in exported.constants.items()})
    for gm, name in _attributes(exported):
        if isinstance(value := getattr(gm, name, None), Tensor):
            setattr(gm, name, _owned(value))
    return exported


def _owned(value: Any) -> Any:
    is_shared = type(value) is Tensor and value.layout is torch.strided and not value.untyped_storage().resizable()
    return value.clone() if is_shared else value


def _attributes(exported: ExportedProgram) -> list[tuple[GraphModule, str]]:
    """Return where the graph and its bodies have what is no input."""
    graphs = [each for each in exported.graph_module.modules() if isinstance(each, GraphModule)]
    return [(gm, str(node.target)) for gm in graphs for node in gm.graph.nodes if node.op == "get_attr"]
