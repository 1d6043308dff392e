"""Axes that vanish where data make their size 1: a graph has one rank for all data, and keeps them."""

from __future__ import annotations

from collections.abc import Iterator

from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fxport.diagnostics import Place
from fxport.exporter.capture.sizes.relied import SQUEEZES, aten
from fxport.fx_passes.graph import bodies, place_of
from fxport.fx_passes.program import Program
from fxport.fx_passes.sizes import sizes_of


def keep_axes_of_data(program: Program) -> Iterator[Place | None]:
    """Let squeezes keep the axes whose size depends on data, as PyTorch took them to do, and yield their lines."""
    yield from _kept(program.graph_module)


def _kept(gm: GraphModule) -> Iterator[Place | None]:
    for _, body in bodies(gm):
        yield from _kept(body)
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in SQUEEZES and any(_sizes_of_data(node)):
            sizes = sizes_of(node.args[0].meta["val"])
            node.target, node.args = aten.squeeze.dims, (node.args[0], [i for i in _axes(node) if sizes[i] == 1])
            node.kwargs = {}
            yield place_of(node)


def _sizes_of_data(node: Node) -> Iterator[bool]:
    sizes = sizes_of(node.args[0].meta["val"])  # type: ignore[union-attr]  # a tensor is squeezed
    return (bool(free_unbacked_symbols(sizes[axis])) for axis in _axes(node))  # type: ignore[arg-type]  # of sizes


def _axes(node: Node) -> list[int]:
    """Return the axes that a squeeze asks for."""
    rank = len(sizes_of(node.args[0].meta["val"]))  # type: ignore[union-attr]
    asked = node.args[1] if len(node.args) > 1 else range(rank)
    if not rank:  # of no axes, PyTorch takes 0 and -1 as well
        return []
    return [each % rank for each in ([asked] if isinstance(asked, int) else asked)]  # type: ignore[union-attr, operator]
