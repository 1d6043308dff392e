"""Copies where eager PyTorch has, at some sizes, the tensor itself: no write may tell the two apart."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from fxport.exporter.capture.regions import with_open_regions
from fxport.exporter.capture.sizes.memory import Memory
from fxport.fx_passes.graph import bodies

aten = torch.ops.aten

COPIES = (aten.pad.default, aten.constant_pad_nd.default, aten.contiguous.default, aten.clone.default)
"""The ops of a body that always runs, although it changes nothing at some sizes."""


def copies_unwritten(exported: ExportedProgram) -> bool:
    """Return whether nothing is written to a copy, nor to what was copied, once there are both."""
    signature = exported.graph_signature
    return not (signature.buffers_to_mutate or signature.user_inputs_to_mutate) and _unwritten(
        with_open_regions(exported.graph_module)
    )


def _unwritten(gm: GraphModule) -> bool:
    memory = Memory(gm)
    last = {memory.groups[event.node]: event.at for event in memory.writes}
    copies = (node for node in memory.nodes if node.target in COPIES)
    sides = ((memory.index[node], each) for node in copies for each in (node, node.args[0]) if isinstance(each, Node))
    unwritten = all(last.get(memory.groups[side], -1) <= at for at, side in sides)
    return unwritten and all(_unwritten(body) for _, body in bodies(gm))
