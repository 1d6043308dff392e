"""The tanh approximation of GELU, as models write it out, becomes the one op that it is."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.graph import call, is_call

aten = torch.ops.aten

SQRT_2_OVER_PI, CUBIC = math.sqrt(2 / math.pi), 0.044715
"""Hendrycks and Gimpel, Gaussian Error Linear Units (arXiv:1606.08415), section 2."""


@fx_pass
def fuse_gelu(gm: GraphModule, log: Log) -> bool:
    """One op instead of eight; the scalars must be those of the approximation, the order of factors is free.

    Given:   %t = tanh(mul(add(%x, mul(pow(%x, 3), 0.044715)), 0.7978845608)); %y = mul(mul(%x, 0.5), add(%t, 1.0))
    Result:  %y = gelu(%x, approximate="tanh")
    """
    changed = False
    for tanh in gm.graph.find_nodes(op="call_function", target=aten.tanh.default):
        x = cubic_argument(tanh.args[0])
        product = _product(tanh, x) if x is not None else None
        if x is None or product is None or product.meta["val"].dtype != x.meta["val"].dtype:
            continue
        with gm.graph.inserting_before(product):
            fused = call(product, aten.gelu.default, (x,), {"approximate": "tanh"}, val=product.meta["val"])
        product.replace_all_uses_with(fused)
        changed = True
    return changed


def cubic_argument(node: Any) -> Node | None:
    """x, for sqrt(2/pi) * (x + 0.044715 * x ** 3); None for anything else."""
    inner = times(node, SQRT_2_OVER_PI)
    if not is_call(inner, aten.add.Tensor) or inner.kwargs:
        return None
    operands: Any = inner.args
    for x, cubic in (operands, operands[::-1]):
        cube = times(cubic, CUBIC)
        if is_call(cube, aten.pow.Tensor_Scalar) and cube.args[1] == 3 and cube.args[0] is x:
            return x
    return None


def _product(tanh: Node, x: Node) -> Node | None:
    """The node that is 0.5 * x * (1 + tanh), where the tanh serves nothing else."""
    if len(tanh.users) != 1:
        return None
    (plus_one,) = tanh.users
    if not is_call(plus_one, aten.add.Tensor, aten.add.Scalar) or 1 not in plus_one.args or len(plus_one.users) != 1:
        return None
    (product,) = plus_one.users
    if not is_call(product, aten.mul.Tensor):
        return None
    (other,) = [each for each in product.args if each is not plus_one] or [None]
    return product if times(other, 0.5) is x else None


def times(node: Any, factor: float) -> Any:
    """Return the other factor of a product with the number; None if the node is no such product."""
    if not is_call(node, aten.mul.Tensor, aten.mul.Scalar):
        return None
    for value, number in (node.args, node.args[::-1]):
        if isinstance(number, float) and math.isclose(number, factor, rel_tol=1e-6):
            return value
    return None
