"""Root mean square normalization, as models write it out, becomes the one op that it is."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, is_call
from fxport.fx_passes.sizes import size_of

aten = torch.ops.aten


@fx_pass
def fuse_rms_norm(gm: GraphModule, log: Log) -> bool:
    """One op, for which ONNX has an operator from opset 23 on, instead of seven.

    Given:   %m = mean(pow(%x, 2), [-1], True); %n = mul(%x, rsqrt(add(%m, 1e-6))); %y = mul(%weight, %n)
    Result:  %y = rms_norm(%x, [64], %weight, 1e-6)
    """
    changed = False
    for root in gm.graph.find_nodes(op="call_function", target=aten.rsqrt.default):
        found = _normalized(root)
        if found is None:
            continue
        x, eps, normalized = found
        size = size_of(x.meta["val"].shape[-1])
        if not isinstance(size, int):
            continue
        scaled, weight = _scaled(normalized, size)
        with gm.graph.inserting_before(scaled):
            fused = call(scaled, aten.rms_norm.default, (x, [size], weight, eps), val=scaled.meta["val"])
        scaled.replace_all_uses_with(fused)
        changed = True
    return changed


def _normalized(root: Node) -> tuple[Node, float, Node] | None:
    """(x, eps, x * rsqrt(mean(x ** 2) + eps)) for the rsqrt of such a product, over the last dim; else None."""
    total = root.args[0]
    if not is_call(total, aten.add.Tensor, aten.add.Scalar) or not isinstance(total.args[1], float) or total.kwargs:
        return None
    mean = total.args[0]
    if not is_call(mean, aten.mean.dim) or len(mean.args) < 3 or mean.args[2] is not True or mean.kwargs:
        return None
    x = _squared(mean.args[0])
    if x is None or mean.args[1] not in ([-1], [x.meta["val"].dim() - 1]):
        return None
    users = [user for user in root.users if is_call(user, aten.mul.Tensor) and x in user.args]
    if len(root.users) != 1 or len(users) != 1 or not x.meta["val"].dtype.is_floating_point:
        return None
    return x, total.args[1], users[0]


def _squared(node: Any) -> Node | None:
    """x, for x ** 2 and x * x."""
    square = is_call(node, aten.square.default) or (is_call(node, aten.pow.Tensor_Scalar) and node.args[1] == 2)
    square = square or (is_call(node, aten.mul.Tensor) and node.args[0] is node.args[1])
    base: Any = node.args[0] if square else None
    return base


def _scaled(normalized: Node, size: int) -> tuple[Node, Node | None]:
    """The product with the weight, and the weight, where that is the only use; else the normalized value alone."""
    users = list(normalized.users)
    if len(users) == 1 and is_call(users[0], aten.mul.Tensor):
        others = [each for each in users[0].args if each is not normalized]
        if len(others) == 1 and isinstance(others[0], Node):
            value = others[0].meta["val"]
            if value.dim() == 1 and size_of(value.shape[0]) == size and value.dtype == normalized.meta["val"].dtype:
                return users[0], others[0]
    return normalized, None
