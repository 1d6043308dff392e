"""Tensors of the trace that a part of a graph holds as if they were constants: the part reads what it was not given."""

from __future__ import annotations

from collections.abc import Callable

from torch._subclasses import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule

from fxport.exporter.capture.control_flow.merging import LoopError

ESCAPED = "it reads a tensor that was made elsewhere in the trace, which a graph cannot be given there"


def require_given(exported: ExportedProgram, has_fake_weights: Callable[[], bool]) -> ExportedProgram:
    """Return the program; raise LoopError if a tensor of the trace is among its constants.

    Args:
        exported: What was captured.
        has_fake_weights: Returns whether constants may be fake because those of the model are.
    """
    graphs = [each for each in exported.graph_module.modules() if isinstance(each, GraphModule)]
    named = [(gm, str(node.target)) for gm in graphs for node in gm.graph.nodes if node.op == "get_attr"]
    held = [*exported.constants.values(), *(getattr(gm, name, None) for gm, name in named)]
    if any(isinstance(each, FakeTensor) for each in held) and not has_fake_weights():
        raise LoopError(ESCAPED)
    return exported
