"""Complex tensors as real ones with a last axis of 2, by a table of rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log
from fxport.fx_passes.base import fx_pass
from fxport.fx_passes.decompose import REFUSED
from fxport.fx_passes.graph import SizeError, fake_mode_of
from fxport.fx_passes.passes import (
    complex_arithmetic,
    complex_axes,
    complex_create,
    complex_factors,
    complex_fourier,
    complex_functions,
    complex_linalg,
    complex_products,
    complex_reductions,
)
from fxport.fx_passes.passes.complex_values import Complex, NoRealForm, Packed, real_dtype
from fxport.fx_passes.trace import Trace

aten = torch.ops.aten

Row = Callable[..., Any]

ROWS: Mapping[Any, Row] = {
    **complex_arithmetic.ROWS,
    **complex_axes.ROWS,
    **complex_create.ROWS,
    **complex_factors.ROWS,
    **complex_fourier.ROWS,
    **complex_functions.ROWS,
    **complex_linalg.ROWS,
    **complex_products.ROWS,
    **complex_reductions.ROWS,
}
"""Real form of each ATen op on complex tensors.

Complex operands arrive as `Packed`, results are `Complex`, `Packed` or, where the op's result is real, tensors.
"""

COMPLEX_RESULTS = "fxport_complex_results"
"""Key in the output node's `meta`: positions of the results that were complex."""
NO_REAL_FORM = "fxport_no_real_form"
"""Key of `node.meta`: the op has complex operands or results, and no row says what it is on real ones."""


THROUGH_COMPLEX = frozenset(
    {
        aten.fft_hfft.default,
        aten.fft_hfft2.default,
        aten.fft_hfftn.default,
        aten.fft_irfft.default,
        aten.fft_irfft2.default,
        aten.fft_irfftn.default,
        aten.stft.default,
    }
)
"""Ops that may take and give real numbers, and decompose to ops on complex ones."""


def is_complex(node: Node) -> bool:
    """Return True if a node or its decomposition takes or gives a complex tensor or number."""
    if _any_complex(node.meta.get("val")) or node.target in THROUGH_COMPLEX:
        return True
    arguments = pytree.tree_leaves((node.args, node.kwargs))
    return node.op == "call_function" and any(
        isinstance(each, complex) or (isinstance(each, Node) and _any_complex(each.meta.get("val")))
        for each in arguments
    )


def _any_complex(value: Any) -> bool:
    leaves = value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(each, torch.Tensor) and each.dtype.is_complex for each in leaves)


@fx_pass
def complex_to_real(gm: GraphModule, log: Log) -> bool:
    """ONNX Runtime computes no complex numbers, so each is a pair of real ones; inputs, outputs and weights as well.

    Given:   %z: c64[n] = mul(%x: c64[n], %y: c64[n]); %r = abs(%z)
    Result:  %a, %b = %x: f32[n, 2] …; %re = %a * %c - %b * %d; %im = %a * %d + %b * %c; %r = hypot(%re, %im)

    An op that has no row keeps its place, with real operands, and is marked for the lowering stage to report.
    """
    found = {node for node in gm.graph.nodes if is_complex(node)}
    if found:
        _Rewrite(gm, found).run()
    return bool(found)


class _Rewrite:
    """One graph: what stands for each of its complex nodes so far."""

    def __init__(self, gm: GraphModule, found: Set[Node]) -> None:
        self.gm = gm
        self.found = found
        self.trace = Trace(gm.graph)
        self.known: dict[Node, Any] = {}

    def run(self) -> None:
        replaced: list[Node] = []
        for node in list(self.gm.graph.nodes):
            if node.op == "output":
                self._outputs(node)
            elif node.op in ("placeholder", "get_attr"):
                self._source(node)
            elif node.target is operator.getitem and node.args[0] in self.known:
                self._keep(node, self.known[node.args[0]][node.args[1]])  # type: ignore[index]
                replaced.append(node)
            elif node in self.found:
                self._call(node)
                replaced.append(node)
        for node in reversed(replaced):
            if not node.users:
                self.gm.graph.erase_node(node)

    def _source(self, node: Node) -> None:
        """An input or a weight keeps its node, which from here on is real."""
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.dtype.is_complex:
            packed = self.trace.stand_in(node, (*value.shape, 2), value, real_dtype(value.dtype))
            node.meta["val"] = packed
            self.known[node] = Packed(packed)

    def _call(self, node: Node) -> None:
        args, kwargs = pytree.tree_map_only(Node, self._operand, (node.args, node.kwargs))
        unknown = _unknown(self.trace, node)
        with fake_mode_of([n.meta.get("val") for n in (node, *node.all_input_nodes)]), self.trace.at(node):
            try:
                self._keep(node, _complete(node, ROWS.get(node.target, unknown)(*args, **kwargs)))
            except (NoRealForm, SizeError) as refusal:
                node.meta[REFUSED] = str(refusal)
                self._keep(node, unknown(*args, **kwargs))

    def _operand(self, node: Node) -> Any:
        if "val" not in node.meta:  # a body, which is rewritten on its own
            return node
        return self.known[node] if node in self.known else self.trace.value(node)

    def _keep(self, node: Node, result: Any) -> None:
        """Notes what stands for a complex result; a real one takes the node's place at once."""
        value = node.meta["val"]
        if isinstance(value, (list, tuple)):
            self.known[node] = [self._fitted(each, like) for each, like in zip(result, value, strict=True)]
        elif isinstance(value, torch.Tensor) and value.dtype.is_complex:
            self.known[node] = self._fitted(result, value)
        else:
            node.replace_all_uses_with(self.trace.node(self._fitted(result, value)))

    def _fitted(self, result: Any, like: Any) -> Any:
        """A row's result in the sizes and the dtype that the ATen op's has; None is one that no row gives."""
        if result is None or not isinstance(like, torch.Tensor):
            return result
        if not like.dtype.is_complex:
            return self._part(result.re if isinstance(result, Complex) else result, like, like.shape)
        if isinstance(result, Packed):
            return result if result.only_parts else Packed(self._part(result.packed, like, (*like.shape, 2)))
        z = Complex.of(result)
        real = isinstance(z.im, (int, float)) and isinstance(z.re, torch.Tensor)
        im = z.im if real else self._part(z.im, like, like.shape)
        return Packed(parts=Complex(self._part(z.re, like, like.shape), im))

    def _part(self, part: Any, like: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
        dtype = real_dtype(like.dtype)
        if not isinstance(part, torch.Tensor):
            return torch.full(tuple(sizes), part, dtype=dtype)
        if part.dtype != dtype:
            part = part.to(dtype)
        return self.trace.sized(part, sizes)

    def _outputs(self, node: Node) -> None:
        with fake_mode_of([n.meta.get("val") for n in node.all_input_nodes]), self.trace.at(node):
            results = node.args[0] if isinstance(node.args[0], (tuple, list)) else ()
            pairs = [number for number, each in enumerate(results) if isinstance(each, Node) and each in self.known]
            node.meta[COMPLEX_RESULTS] = tuple(pairs)
            node.args = map_arg(node.args, self._result)

    def _result(self, node: Node) -> Node:
        return self.trace.node(self.known[node].packed) if node in self.known else node


def _complete(node: Node, result: Any) -> Any:
    """Return the results of a node. Raises NoRealForm if one of them is read that its row does not give."""
    for user in node.users:
        number = user.args[1] if user.target is operator.getitem and user.users else None
        if isinstance(number, int) and result[number] is None and node.meta["val"][number] is not None:
            raise NoRealForm(f"its form in real numbers does not make result {number}, which is read")
    return result


def _unknown(trace: Trace, node: Node) -> Row:
    """The node itself on real tensors: for control flow that is all, anything else is for the walk to report."""

    def row(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map_only(Packed, lambda z: z.packed, (args, kwargs))
        with trace.unseen(node.meta["val"]):
            value = pytree.tree_map_only(torch.Tensor, _real_like, node.meta["val"])
        made = trace.write(node.target, args, kwargs, value)
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            made.meta[NO_REAL_FORM] = True
            made.meta[REFUSED] = node.meta.get(REFUSED, "it has no form in real numbers")
        trace.bind_all(made, value)
        if isinstance(value, (list, tuple)):
            return [_packed_if(*pair) for pair in zip(value, node.meta["val"], strict=True)]
        return _packed_if(value, node.meta["val"])

    return row


def _real_like(value: torch.Tensor) -> torch.Tensor:
    sizes = (*value.shape, 2) if value.dtype.is_complex else value.shape
    return torch.empty(sizes, dtype=real_dtype(value.dtype), device=value.device)


def _packed_if(value: Any, original: Any) -> Any:
    return Packed(value) if isinstance(original, torch.Tensor) and original.dtype.is_complex else value
