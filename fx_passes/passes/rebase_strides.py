"""as_strided sees a storage; ONNX values have none. What it sees becomes the elements of a tensor in their order."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log, rules
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, fake, place_of
from fxport.fx_passes.sizes import Size, size_of

aten = torch.ops.aten

READS = (aten.as_strided.default, aten.as_strided_copy.default)
WRITES = (aten.as_strided_scatter.default,)


@fx_pass
def rebase_strides(gm: GraphModule, log: Log) -> bool:
    """After this pass, strides count the elements of the first argument in their order, from its first one on.

    Given:   %t = transpose(%x, 0, 1); %y = as_strided(%t, [2], [1], 3)
    Result:  %y = as_strided(%x, [2], [1], 3)

    A tensor that is laid out in another order of axes is permuted first.
    """
    changed = False
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or node.target not in (*READS, *WRITES):
            continue
        source: Any = node.args[0]
        base = _owner(source) if node.target in READS else source
        order = _layout(base.meta["val"])
        if order is None or _reaches_beyond(node, source, base):
            detail = "strides over a tensor with gaps, or over a part of one that the model does not hold"
            log.report(rules.NO_MATCHING_OVERLOAD, at=place_of(node), op=str(node.target), detail=detail)
        elif not _is_whole(source, base):
            _rebase(node, source, base, order)
            changed = True
    return changed


def _arguments(node: Node, source: Node) -> dict[str, Any]:
    """The arguments by name, with the offset that is meant where none is given: that of the source."""
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]  # an overload
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    if given.get("storage_offset") is None:
        given["storage_offset"] = source.meta["val"].storage_offset()
    return {name: given[name] for name in names}


def _reaches_beyond(node: Node, source: Node, base: Node) -> bool:
    """Return True if the last element that is viewed is known to lie behind the end of the base."""
    given = _arguments(node, source)
    sizes, strides = ([size_of(fake(each)) for each in given[name]] for name in ("size", "stride"))
    last = size_of(fake(given["storage_offset"])) + sum(
        (size - 1) * stride for size, stride in zip(sizes, strides, strict=True)
    )
    count = size_of(base.meta["val"].numel())
    return isinstance(last, int) and isinstance(count, int) and last >= count and 0 not in sizes


def _is_whole(source: Node, base: Node) -> bool:
    """Return True if a tensor holds all elements of its storage in their order."""
    here, there = source.meta["val"], base.meta["val"]
    return _layout(here) == list(range(here.dim())) and size_of(here.numel()) == size_of(there.numel())


def _owner(node: Node) -> Node:
    """The node that made the storage that a view looks at."""
    while node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        parent = node.args[0]
        storage = _storage(node)
        if storage is None or storage != _storage(parent):
            break
        node = parent
    return node


def _storage(node: Node) -> int | None:
    value = node.meta.get("val")
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _layout(value: torch.Tensor) -> list[int] | None:
    """The order of axes in which the elements stand one behind the other; None where they do not, or not from 0 on."""
    if value.storage_offset() != 0:
        return None
    sizes, strides = [size_of(size) for size in value.shape], [size_of(stride) for stride in value.stride()]
    if 0 in sizes:
        return list(range(len(sizes)))
    left = list(range(len(sizes)))[::-1]
    order: list[int] = []
    expected: Size = 1
    while left:
        axis = next((axis for axis in left if sizes[axis] == 1 or strides[axis] == expected), None)
        if axis is None:
            return None
        left.remove(axis)
        order.insert(0, axis)
        expected = expected * sizes[axis]
    return order


def _rebase(node: Node, source: Node, base: Node, order: list[int]) -> None:
    """Puts the base, in the order of its storage, in the place of the source; a write is turned back afterwards."""
    _, *rest = _arguments(node, source).values()
    graph = node.graph
    with graph.inserting_before(node):
        turned = base if order == sorted(order) else call(node, aten.permute.default, (base, order))
    node.args, node.kwargs = (turned, *rest), {}
    if node.target in WRITES and turned is not base:
        with graph.inserting_after(node):
            back = [order.index(axis) for axis in range(len(order))]
            result = call(node, aten.permute.default, (node, back), val=node.meta["val"])
        node.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)
        node.meta["val"] = turned.meta["val"]
