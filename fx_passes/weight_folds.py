"""Search for the nodes of a graph that depend on weights and constants alone, and are worth to be stored as results.

Nothing is computed here: a result is a new weight, whose values are computed when the model is saved.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.utils import _pytree as pytree

from fxport.fx_passes.passes.complex_to_real import NO_REAL_FORM
from fxport.fx_passes.program import InputKind, Program
from fxport.fx_passes.randomness import is_random
from fxport.fx_passes.sizes import size_of

TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool, torch.int32, torch.int64})
"""Types of what is folded. Those of 8 bits are of quantized weights, which are never expanded."""

TRANSPOSING = frozenset(["permute", "t", "transpose"])
"""Operators that a product reads its weight through: the ONNX passes store it so, under its own name."""

REARRANGING = TRANSPOSING | frozenset(
    {
        "alias", "broadcast_to", "cat", "chunk", "concat", "expand", "expand_as", "flatten", "flip", "movedim",
        "narrow", "repeat", "repeat_interleave", "reshape", "roll", "select", "slice", "split",
        "split_with_sizes", "squeeze", "stack", "swapaxes", "tile", "unbind", "unflatten", "unfold",
        "unsafe_split", "unsafe_view", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Operators that only move numbers to other places."""

COMPUTING = frozenset(
    {
        "_softmax", "_to_copy", "_weight_norm", "_weight_norm_interface", "addbmm", "addmm", "addmv", "addr",
        "all", "amax", "amin", "any", "arange", "argmax", "argmin", "baddbmm", "bmm", "clone",
        "constant_pad_nd", "contiguous", "cumprod", "cumsum", "diag", "diag_embed", "diagonal", "dot", "einsum",
        "embedding", "eye", "full", "full_like", "gather", "ger", "index", "index_select", "inner", "kron",
        "layer_norm", "lift_fresh", "lift_fresh_copy", "linalg_vector_norm", "linear", "linspace",
        "masked_fill", "matmul", "max", "mean", "min", "mm", "mv", "native_layer_norm", "new_full", "new_ones",
        "new_zeros", "norm", "norm_except_dim", "ones", "ones_like", "outer", "pad", "prod", "scalar_tensor",
        "select_scatter", "slice_scatter", "softmax", "std", "sum", "tensordot", "to", "tril", "triu",
        "upsample_bicubic2d", "upsample_bilinear2d", "upsample_nearest2d", "var", "vdot", "zeros", "zeros_like",
    }
)  # fmt: skip
"""Operators that are folded beside those and the pointwise ones: PyTorch's CPU has them in every type of TYPES."""

UNPACKING = ("bitwise_", "__lshift__", "__rshift__", "__and__", "__or__", "__xor__")
"""Begins of the names of operators that take packed weights apart, unless they are about truth values."""

CONSTANT_BYTES = 4096
"""Largest result of constants alone that is left to the ONNX passes, which look at such values."""

BYTES_A_NODE = 32 * 1024
"""Bytes by which the file may grow for each node that is folded."""

GROWTH_PART = 64
"""All folds together let the file grow by one part in so many of the weights, or by `LEAST_GROWTH` bytes."""

LEAST_GROWTH = 256 * 1024

ROUNDS = 8
"""Number of times that results that do not pay are given up for what they are computed from; then all of a group is."""


@dataclass(frozen=True)
class Folds:
    """Nodes that are not lowered: `results` become weights, each with the largest in it; `inner` serves those alone."""

    results: Mapping[Node, Node | None] = field(default_factory=dict)
    inner: Collection[Node] = frozenset()


def folds_of(program: Program, keep: Collection[Any]) -> Folds:
    """Find what is folded: results of weights and constants alone, unless the file would grow too much by it.

    Weights that the model changes are none here. Random operators, control flow, quantized weights and the operators
    in `keep` are not folded.

    Given:   %n = rsqrt(%var); %scale = mul(%weight, %n); %y = mul(%x, %scale)
    Result:  %y = mul(%x, %weight.folded)
    """
    constant = _Constant(program, keep)
    rounds, (results, lowered) = 0, constant.split()
    while given_up := constant.too_large(results, lowered, whole=rounds >= ROUNDS):
        constant.given_up |= given_up
        rounds, (results, lowered) = rounds + 1, constant.split()
    inner = constant.main.keys() - lowered - set(results)
    return Folds({node: constant.main[node] for node in results}, inner)


class _Constant:
    """The nodes of weights and constants alone.

    `weights` are the bytes of each weight, `main` holds the largest weight in each node, `given_up` are nodes that are
    lowered where something reads their results; what is folded may compute them all the same.
    """

    def __init__(self, program: Program, keep: Collection[Any]) -> None:
        self.weights = _weights(program)
        self.main: dict[Node, Node | None] = {}
        for node in program.graph_module.graph.nodes:
            sources = node.all_input_nodes
            if all(each in self.weights or each in self.main for each in sources) and _can_be_computed(node, keep):
                mains = (each if each in self.weights else self.main[each] for each in sources)
                self.main[node] = max(filter(None, mains), key=self._rank, default=None)
        self.given_up = {node for node in self.main if self._left_to_others(node)}
        self.budget = max(LEAST_GROWTH, sum(self.weights.values()) // GROWTH_PART)

    def _rank(self, weight: Node) -> tuple[bool, int]:
        """The main weight of some is the largest that is no table of indices."""
        return weight.meta["val"].dtype.is_floating_point, self.weights[weight]

    def _left_to_others(self, node: Node) -> bool:
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor) or not node.all_input_nodes:
            return True
        if self.main[node] is None:
            return _bytes(value) <= CONSTANT_BYTES
        return _name(node) in TRANSPOSING and node.args[0] in self.weights

    def split(self) -> tuple[list[Node], set[Node]]:
        """Return the results that become weights, and the nodes that are lowered."""
        results, lowered = list[Node](), set[Node]()
        for node in reversed(self.main):
            if any(user not in self.main or user in lowered for user in node.users):
                lowered.add(node) if node in self.given_up else results.append(node)
        return results[::-1], lowered

    def too_large(self, results: Collection[Node], lowered: Collection[Node], *, whole: bool) -> set[Node]:
        """Return results that do not pay: of each group with weights in common the one that adds most.

        With `whole`, all nodes of such a group are returned: they are lowered, as if nothing of it could be folded.
        Of a weight that is also read as it is, another arrangement alone never pays.
        """
        freed = {each for each in self.weights if not any(u not in self.main or u in lowered for u in each.users)}
        stored, spent, given_up = set(results), 0, set[Node]()
        for group in self._groups(freed, lowered):
            kept = [node for node in group if node in stored]
            calls = [node for node in group if node in self.main and node.target is not operator.getitem]
            growth = sum(map(self._bytes, kept)) - sum(self.weights.get(node, 0) for node in group)
            mains = {self.main[node] for node in kept} - {None}
            moved = all(_name(node) in REARRANGING for node in calls) and not mains <= freed
            if growth <= 0 or (not moved and growth <= min(len(calls) * BYTES_A_NODE, self.budget - spent)):
                spent += max(growth, 0)
            elif whole:
                given_up |= self.main.keys() & group
            else:
                given_up |= {*kept} if moved else {max(kept, key=self._bytes)}
        return given_up

    def _groups(self, freed: Collection[Node], lowered: Collection[Node]) -> Iterable[Sequence[Node]]:
        """Group the nodes that are not lowered with the weights that serve them alone, by what they share."""
        owner: dict[Node, Node] = {}

        def root(node: Node) -> Node:
            while owner[node] is not node:
                owner[node] = owner[owner[node]]
                node = owner[node]
            return node

        folded = [*freed, *(node for node in self.main if node not in lowered)]
        for node in folded:
            owner[node] = node
            for source in node.all_input_nodes:
                if source in owner:
                    owner[root(source)] = root(node)
        groups: dict[Node, list[Node]] = {}
        for node in folded:
            groups.setdefault(root(node), []).append(node)
        return groups.values()

    def _bytes(self, node: Node) -> int:
        return _bytes(node.meta["val"])


def _weights(program: Program) -> dict[Node, int]:
    """The bytes of each weight and constant that the model does not change."""
    changed = set(program.state.values())
    found = {
        node: _bytes(node.meta["val"])
        for entry, node in zip(program.inputs, program.placeholders, strict=True)
        if entry.kind is not InputKind.USER and entry.name not in changed and _is_plain(node.meta.get("val"))
    }
    for node in program.graph_module.graph.find_nodes(op="get_attr"):
        if _is_plain(node.meta.get("val")):
            found[node] = _bytes(node.meta["val"])
    return found


def _can_be_computed(node: Node, keep: Collection[Any]) -> bool:
    """Return True if the results of a node on known values are known, and the same on every machine."""
    if node.op != "call_function" or NO_REAL_FORM in node.meta:
        return False
    values = pytree.tree_leaves(node.meta.get("val"))
    if not values or not all(map(_is_plain, values)):
        return False
    target = node.target
    if target is operator.getitem:
        return isinstance(node.args[0], Node)
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten" or target in keep:
        return False
    if target._schema.is_mutable or is_random(node):
        return False
    name = _name(node)
    if name.startswith("special_"):  # PyTorch's CPU lacks some of them in types of 16 bits
        return False
    if name.startswith(UNPACKING):
        return all(value.dtype == torch.bool for value in values)
    return torch.Tag.pointwise in target.tags or name in REARRANGING or name in COMPUTING


def _is_plain(value: Any) -> bool:
    """Return True for a tensor of known sizes, of a type that is folded."""
    return (
        isinstance(value, torch.Tensor)
        and value.dtype in TYPES
        and value.layout is torch.strided
        and all(isinstance(size_of(size), int) for size in value.shape)
    )


def _bytes(value: torch.Tensor) -> int:
    return math.prod(size_of(size) for size in value.shape) * value.dtype.itemsize


def _name(node: Node) -> str:
    """The name of an ATen operator without its overload; of other functions their own."""
    target = node.target
    return target._schema.name.split("::")[-1] if isinstance(target, torch._ops.OpOverload) else "getitem"
