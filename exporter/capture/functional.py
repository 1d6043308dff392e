"""Captured programs in a form whose writes the passes can rewrite."""

from __future__ import annotations

import warnings

import torch
from torch.export import ExportedProgram

from fx_passes.aliases import expand_aliases
from fx_passes.graph import bodies
from fx_passes.passes.functionalize import unsupported


def functional(exported: ExportedProgram) -> ExportedProgram:
    """Return the program in a form whose writes the passes can rewrite.

    Nearly every program is; only one with an autocast region at any depth, or with a write through a view that has no
    inverse, is traced again by PyTorch, with all its ops kept whole.
    """
    expand_aliases(exported.graph_module)
    if _sets_autocast(exported.graph_module) or unsupported(exported.graph_module):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, about how it writes its own autocast regions
            return exported.run_decompositions({})
    return exported


def _sets_autocast(gm: torch.fx.GraphModule) -> bool:
    """Return whether autocast is set in the graph or in a body; around control flow it stays a pair of calls."""
    calls = (torch.ops.higher_order.wrap_with_autocast, torch.amp.autocast_mode._enter_autocast)
    if any(node.target in calls for node in gm.graph.nodes):
        return True
    return any(_sets_autocast(body) for _, body in bodies(gm))
