"""Helpers of passes that match patterns of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import torch

from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.places import remark
from fxport.fx_passes.sizes import Size


def nodes_of(model: ir.Model) -> list[ir.Node]:
    """The nodes of the graph and of the bodies of its control flow, in order. Before the last pass there are no
    functions."""
    return list(ir.traversal.RecursiveGraphIterator(model.graph))


def sizes_of(value: ir.Value | None) -> tuple[Size, ...] | None:
    """The sizes of a value as numbers and expressions; None where the lowering noted none."""
    return value.meta.get(SIZES) if value is not None else None


def fixed(value: ir.Value | None) -> ir.TensorProtocol | None:
    """The tensor of a weight or a constant; None for all else, and for state, which a caller may feed."""
    return value.const_value if value is not None and value.is_initializer() and not value.is_graph_input() else None


def transposed(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Copy an array with its axes in another order.

    PyTorch copies in blocks that stay in the cache of the processor: eight times as fast as NumPy for a matrix.
    """
    words = WORDS.get(array.itemsize)
    if words is None or not array.flags.writeable:  # PyTorch has no arrays that are only read
        return np.ascontiguousarray(array.transpose(order))
    whole = torch.from_numpy(array.view(words)).permute(*order).contiguous()
    return whole.numpy().view(array.dtype)


WORDS: Mapping[int, type[np.generic]] = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}
"""Types of NumPy and PyTorch that stand for the bytes of an element."""


def constant_of(value: ir.Value | None) -> np.ndarray | None:
    """The content of a constant of the graph; None for weights, which are not read, and for all else."""
    tensor = fixed(value)
    return tensor.numpy() if isinstance(tensor, ir.Tensor) else None


def put_in_place(old: ir.Value, new: ir.Value) -> bool:
    """All uses of a value become uses of another one, also as an output of the graph, under its name there.

    False, and nothing is done, where both are outputs.
    """
    if old.is_graph_output():
        if new.is_graph_output() or new.is_graph_input() or new.is_initializer():
            return False
        name = old.name
        old.replace_all_uses_with(new, replace_graph_outputs=True)
        old.name, new.name = None, name
        describe(new, old)  # the interface says what an output is; within a lowering it may not be known
        remark(new, old)
        return True
    old.replace_all_uses_with(new)
    remark(new, old)
    return True


def describe(value: ir.Value, like: ir.Value) -> None:
    """Gives a value the type and the sizes of another one."""
    value.type, value.shape = like.type, like.shape
    if SIZES in like.meta:
        value.meta[SIZES] = like.meta[SIZES]


def remove_unused(node: ir.Node | None) -> None:
    """Removes a node whose outputs nothing uses, and what only served it: uses that remain are then real ones."""
    if node is None or node.graph is None or any(out.uses() or out.is_graph_output() for out in node.outputs):
        return
    sources = [value.producer() for value in node.inputs if value is not None]
    node.graph.remove(node, safe=True)
    for source in sources:
        remove_unused(source)


def before(user: ir.Node, op_type: str, inputs: list[ir.Value | None], like: ir.Value) -> ir.Value:
    """Put a new node of one result in front of one, of its place in the source; the result has the type of `like`."""
    node = ir.node(op_type, inputs, name=f"{user.name}/{op_type}", metadata_props=dict(user.metadata_props))
    node.outputs[0].name = f"{user.outputs[0].name}/{op_type}"
    describe(node.outputs[0], like)
    assert user.graph is not None
    user.graph.insert_before(user, node)
    return node.outputs[0]


def constant_before(user: ir.Node, array: np.ndarray) -> ir.Value:
    """Put a new constant in front of a node."""
    node = ir.node("Constant", [], attributes={"value": ir.tensor(array)}, metadata_props=dict(user.metadata_props))
    node.name = node.outputs[0].name = f"{user.outputs[0].name}/{array.size}"
    assert user.graph is not None
    user.graph.insert_before(user, node)
    return node.outputs[0]
