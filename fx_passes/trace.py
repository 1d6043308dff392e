"""Writes FX nodes by running plain PyTorch on fake tensors, so that what a pass writes is an ordinary function.

Private PyTorch API is used here to see each ATen op, whole, on its way to the fake tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch._decomp import decomposition_table
from torch._higher_order_ops.flex_attention import math_attention
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from fxport.fx_passes.equations import sizes_of_result
from fxport.fx_passes.graph import SizeError, asked_at, call, fake_mode_of
from fxport.fx_passes.sizes import size_of

aten = torch.ops.aten


def _einsum(equation: str, operands: Sequence[torch.Tensor], *, path: Sequence[int] | None = None) -> torch.Tensor:
    return operands[0].new_empty(sizes_of_result(equation, [each.shape for each in operands]))


KERNELS: Mapping[Any, Any] = {
    aten.constant_pad_nd.default: decomposition_table[aten.constant_pad_nd.default],
    aten.trace.default: lambda x: x.diagonal().sum(),
    aten.einsum.default: _einsum,
    aten.slice_scatter.default: lambda x, *part: torch.empty_like(x),
    aten.select_scatter.default: lambda x, *part: torch.empty_like(x),
}
"""Functions that run on fake tensors in the place of ops whose own kernel makes dynamic sizes constants, asks about
them what the capture has checked, or fails."""


class Trace(TorchDispatchMode):
    """Each ATen op that is called inside `at(node)` becomes a node before that node, with its provenance.

    Tensors are fake; which node one stands for is known by its identity. Composite ops are kept whole.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.like: Node | None = None
        self._nodes: dict[int, tuple[torch.Tensor, Node]] = {}  # an identity is one as long as its tensor is held
        self._numbers: dict[sympy.Expr, Node] = {}
        self._axes: dict[sympy.Expr, tuple[Node, int]] = {}

    @contextmanager
    def at(self, node: Node) -> Iterator[None]:
        """Inside, ATen ops are written before `node`."""
        self.like = node
        with (
            asked_at(node),
            self.graph.inserting_before(node),
            torch.no_grad(),
            torch._C._AutoDispatchBelowAutograd(),
            self,
        ):
            yield

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = KERNELS.get(func, func)(*args, **(kwargs or {}))
        if any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(result)):
            self.bind_all(self.write(func, args, kwargs or {}, result), result)
        return result

    def write(self, target: Any, args: Any, kwargs: Mapping[str, Any], val: Any) -> Node:
        """A call of `target` on what stands for these values."""
        assert self.like is not None
        nodes, options = pytree.tree_map(self.node, (tuple(args), dict(kwargs)))
        return call(self.like, target, nodes, options, val=val)

    def bind(self, node: Node, value: torch.Tensor) -> torch.Tensor:
        """From here on, `value` stands for the node."""
        self._nodes[id(value)] = value, node
        for axis, size in enumerate(value.shape):
            expr = size_of(size)
            if isinstance(expr, sympy.Expr):
                self._axes.setdefault(expr, (node, axis))
        return value

    def bind_all(self, node: Node, value: Any) -> Any:
        """The same for a node with several results, taken apart."""
        if isinstance(value, torch.Tensor):
            return self.bind(node, value)
        for index, each in enumerate(value):
            if isinstance(each, torch.Tensor):
                self.bind(call(node, operator.getitem, (node, index), val=each), each)
        return value

    def value(self, node: Node) -> Any:
        """Return the stand-in for a real node: a fake tensor of its own, or the number that it is."""
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            return self.stand_in(node, value.shape, value)
        expr = size_of(value)
        if isinstance(expr, sympy.Expr):
            self._numbers.setdefault(expr, node)
        return value

    def stand_in(self, node: Node, sizes: Sequence[Any], like: torch.Tensor, dtype: torch.dtype | None = None) -> Any:
        """A fake tensor for a node, never the same object twice: two nodes may share the one in their `meta`."""
        with self.unseen(like):
            return self.bind(node, torch.empty(tuple(sizes), dtype=dtype or like.dtype, device=like.device))

    @contextmanager
    def unseen(self, like: Any) -> Iterator[None]:
        """Inside, tensors are made for the fake mode of `like`, and nothing is written."""
        with _disable_current_modes(), fake_mode_of(like), torch.no_grad():
            yield

    def sized(self, value: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
        """A tensor in the sizes that the graph knows it by: expanded to them, or just called by their names.

        An op whose result's size depends on values gives a size symbol of its own each time that it is called.
        """
        if [size_of(size) for size in value.shape] == [size_of(size) for size in sizes]:
            return value
        if free_unbacked_symbols(value.shape) - free_unbacked_symbols(tuple(sizes)):
            node = self.node(value)
            node.meta["val"] = self.stand_in(node, sizes, value)
            return node.meta["val"]
        return value.expand(tuple(sizes))

    def node(self, value: Any) -> Any:
        """The node that a tensor or a symbolic number stands for; anything else as it is.

        Raises:
            SizeError: No tensor has that size.
        """
        if isinstance(value, torch.Tensor):
            return self._nodes[id(value)][1]
        expr = size_of(value)
        if not isinstance(expr, sympy.Expr):
            return expr
        if expr not in self._numbers:
            if expr not in self._axes:
                raise SizeError(f"no tensor has the size {expr}, which is needed here")
            owner, axis = self._axes[expr]
            assert self.like is not None
            self._numbers[expr] = call(self.like, aten.sym_size.int, (owner, axis), val=value)
        return self._numbers[expr]


def attention_graph(
    score: GraphModule, mask: GraphModule, scored: int, scale: Any, values: Sequence[Any]
) -> GraphModule:
    """Trace what PyTorch computes for flex_attention where it has no kernel, on fake q, k, v and captured values.

    The first `scored` of the captured values are those of the function of scores, the others those of the mask.
    """

    def run(q: Any, k: Any, v: Any, *captured: Any) -> Any:
        return math_attention(q, k, v, score, (mask,), scale, {}, captured[:scored], captured[scored:])

    with fake_mode_of(values), torch.no_grad():
        return make_fx(run, tracing_mode="real", _allow_non_fake_inputs=True)(*values)
