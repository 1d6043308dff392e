"""GELU and its tanh approximation, as models write them out, become the one op that they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

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
    """One op instead of five or eight; the scalars must be those of GELU, the order of factors is free.

    Given:   %t = tanh(mul(add(%x, mul(pow(%x, 3), 0.044715)), 0.7978845608)); %y = mul(mul(%x, 0.5), add(%t, 1.0))
    Result:  %y = gelu(%x, approximate="tanh")
    """
    changed = False
    for target, (approximate, argument) in FORMS.items():
        for node in gm.graph.find_nodes(op="call_function", target=target):
            x = argument(node.args[0])
            product = _product(node, x) if x is not None else None
            if x is None or product is None or product.meta["val"].dtype != x.meta["val"].dtype:
                continue
            with gm.graph.inserting_before(product):
                fused = call(product, aten.gelu.default, (x,), {"approximate": approximate}, val=product.meta["val"])
            product.replace_all_uses_with(fused)
            changed = True
    return changed


def normal_argument(node: Any) -> Node | None:
    """x, for x / sqrt(2) in one of its forms; None for anything else."""
    if is_call(node, aten.div.Tensor, aten.div.Scalar) and not node.kwargs:
        x, divisor = cast("tuple[Node, Any]", node.args)
        return x if isinstance(divisor, float) and math.isclose(divisor, math.sqrt(2), rel_tol=1e-6) else None
    return times(node, math.sqrt(0.5))


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


FORMS: Mapping[Any, tuple[str, Callable[[Any], Node | None]]] = {
    aten.tanh.default: ("tanh", cubic_argument),
    aten.erf.default: ("none", normal_argument),
}
"""The operator within each form of GELU: the name of the form, and a search for x in the operator's argument."""


def _product(inner: Node, x: Node) -> Node | None:
    """The node that is 0.5 * x * (1 + inner), where the inner one serves nothing else."""
    if len(inner.users) != 1:
        return None
    (plus_one,) = inner.users
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
