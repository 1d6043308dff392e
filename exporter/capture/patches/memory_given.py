"""Refusal of `x.set_(y)`, which no function mode sees: a graph has no tensors that share memory from some line on."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

from fxport.exporter.capture.faults import RefusedError
from fxport.fx_passes.graph import bodies, place_of

aten = torch.ops.aten


SETTING = frozenset(
    {aten.set.default, aten.set.source_Tensor, aten.set.source_Storage, aten.set.source_Storage_storage_offset}
    | {aten.set_.default, aten.set_.source_Tensor, aten.set_.source_Storage, aten.set_.source_Storage_storage_offset}
)
"""Operators that give a tensor the memory of another one."""

SHARED = "it gives a tensor the memory of another one"
COPY = "Use the other tensor by its own name, or `x.copy_(other)` where both have one size."


def require_own_memory(exported: ExportedProgram) -> ExportedProgram:
    """Return the program; raise RefusedError if a tensor in it is given the memory of another one."""
    for gm in (exported.graph_module, *(body for _, body in bodies(exported.graph_module))):
        for node in gm.graph.nodes:
            if node.target in SETTING:
                raise RefusedError(SHARED, place=place_of(node), cure=COPY)
    return exported
