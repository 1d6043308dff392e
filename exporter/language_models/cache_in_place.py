"""A cache that every step writes in place: attention as `GroupQueryAttention` of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from fxport.exporter.language_models.causal_masks import UnknownMaskError, window_of
from fxport.exporter.language_models.generation import BATCH, CACHE, IDS, MASK, PRESENT
from fxport.exporter.language_models.inserting import constant, insert
from fxport.exporter.lowering.ir_passes.patterns import describe, put_in_place, remove_unused, sizes_of
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.producers import made_by
from fxport.ort_runner.package_config import CAPACITY, FILLED, ON_RIGHT, PackageError

DOMAIN = "com.microsoft"
PERMUTED = [0, 2, 1, 3]
"""Axes of [batch, tokens, heads, size] as attention takes them, and back."""

HIDDEN: Mapping[ir.DataType, float] = {
    ir.DataType.FLOAT: float(np.finfo(np.float32).min),
    ir.DataType.FLOAT16: float(np.finfo(np.float16).min) / 2,
    ir.DataType.BFLOAT16: float(np.finfo(np.float32).min) / 2,
}
"""Added to the score of what a mask hides: finite with any score, so that a token of padding, which sees nothing, has a
value."""


class NotInPlaceError(PackageError):
    """A model whose cache cannot be written in place. The text says why, and what to do."""

    def __init__(self, reason: str, instead: str = "dynamic") -> None:
        super().__init__(f"the cache cannot be written in place: {reason}; choose --cache {instead}.")


class CacheInPlace(ir.passes.InPlacePass):
    """Attention on the cache and new tokens becomes one node that writes these into the cache's own memory.

    Given:   %keys = Concat(%past_keys, %k); %values = Concat(%past_values, %v);
             %y = Attention(%q, %keys, %values, %mask)
    Result:  %y, %keys, %values = GroupQueryAttention(%q, %k, %v, %past_keys, %past_values, …, Where(%mask, 0, lowest))

    The cache has room for more tokens than there are; how many there are follows from the attention mask. The node sees
    no token to the right, which a causal model does not either: the comparison with eager PyTorch shows the difference.
    Raises NotInPlaceError for a model of another structure.

    Args:
        masked: Add the mask to the scores. Otherwise the node hides by itself what a causal mask and a window hide,
            which has to be proven of each mask, and texts are filled up on the right.
    """

    def __init__(self, *, masked: bool = True) -> None:
        super().__init__()
        self._masked = masked

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        pasts = [value for value in graph.inputs if str(value.name).startswith(f"{CACHE}.")]
        pairs = list(zip(pasts[0::2], pasts[1::2], strict=True))
        found = [_Layer(*pair) for pair in pairs]
        windows = [None if self._masked else layer.window() for layer in found]
        sizes = _Counts(graph)
        for layer, window in zip(found, windows, strict=True):
            layer.rewrite(sizes, masked=self._masked, window=window)
        for value in [*pasts, *(value for value in graph.outputs if str(value.name).startswith(f"{PRESENT}."))]:
            sizes.replace_shapes(value)
            assert value.shape is not None
            heads, size = value.shape[1], value.shape[3]
            value.shape = ir.Shape([BATCH, heads, CAPACITY, size])
        model.opset_imports.setdefault(DOMAIN, 1)
        if not self._masked:
            model.metadata_props[FILLED] = ON_RIGHT
            RemoveUnusedNodesPass()(model)  # the constants of masks that are no longer computed
        return ir.passes.PassResult(model, modified=True)


class _Layer:
    """One layer of the cache: its two inputs, and the nodes that use them."""

    def __init__(self, past_key: ir.Value, past_value: ir.Value) -> None:
        self.past_key, self.past_value = past_key, past_value
        self.keys, self.values = _joined(past_key), _joined(past_value)
        users = [user for user in self.keys.outputs[0].consumers() if user.op_type != "Shape"]
        attention = users[0] if len(users) == 1 else None
        if attention is None or attention.op_type != "Attention" or attention.domain:
            raise NotInPlaceError(f"'{past_key.name}' is used by other operators than one attention")
        self.attention = attention
        self._check()

    def _check(self) -> None:
        node = self.attention
        inputs = [*node.inputs, *[None] * 6]
        read = inputs[1] is self.keys.outputs[0] and inputs[2] is self.values.outputs[0]
        if not read or inputs[4:6] != [None, None] or inputs[6] is not None or len(node.outputs) != 1:
            raise NotInPlaceError(f"the attention of '{self.past_key.name}' has other inputs than the cache")
        if inputs[3] is None or [user for user in self.values.outputs[0].consumers() if user is not node]:
            raise NotInPlaceError(f"the attention of '{self.past_key.name}' has no mask, or its cache another use")
        if others := {name for name in node.attributes if name not in ALLOWED and _number(node, name)}:
            raise NotInPlaceError(f"the attention of '{self.past_key.name}' has {', '.join(sorted(others))}")
        widths = {self.width(value) for value in (self.keys.inputs[1], self.values.inputs[1], inputs[0])}
        if len(widths) != 1:
            raise NotInPlaceError(f"keys and values of '{self.past_key.name}' have different sizes")

    @staticmethod
    def width(value: ir.Value | None) -> int:
        """The size of a head, of heads [batch, heads, tokens, size]."""
        sizes = sizes_of(value)
        if sizes is None or len(sizes) != 4 or not isinstance(sizes[1], int) or not isinstance(sizes[3], int):
            raise NotInPlaceError("the sizes of an attention are not known")
        return sizes[3]

    def window(self) -> int | None:
        """The tokens that a sliding window shows, None without one. Raises NotInPlaceError where nothing is proven."""
        query, _, _, mask = self.attention.inputs[:4]
        assert mask is not None
        sizes = [(sizes_of(value) or ())[2:] for value in (mask, query, self.keys.outputs[0])]
        try:
            if sizes[0] != (*sizes[1][:1], *sizes[2][:1]):
                raise UnknownMaskError("its mask has other sizes than the tokens")
            return window_of(mask)
        except UnknownMaskError as error:
            raise NotInPlaceError(f"in the layer of '{self.past_key.name}' {error}", "shared") from error

    def rewrite(self, counts: _Counts, *, masked: bool, window: int | None) -> None:
        """Put one node in the place of those of this layer."""
        node, query = self.attention, self.attention.inputs[0]
        assert query is not None
        heads = [int(sizes_of(value)[1]) for value in (query, self.keys.inputs[1])]  # type: ignore[index, arg-type]
        scale = _number(node, "scale")
        attributes: dict[str, float] = {"num_heads": heads[0], "kv_num_heads": heads[1]}
        if scale:
            attributes["scale"] = scale
        inputs = [_flat(node, value) for value in (query, self.keys.inputs[1], self.values.inputs[1])]
        inputs += [self.past_key, self.past_value, counts.last() if masked else counts.own_last(), counts.total()]
        inputs += [None, None, None, counts.bias(node, node.inputs[3])] if masked else []
        if window is not None:
            attributes["local_window_size"] = window
        made = insert(node, "GroupQueryAttention", inputs, attributes, domain=DOMAIN, outputs=3)
        for old, new in ((self.keys, made.outputs[1]), (self.values, made.outputs[2])):
            describe(new, old.outputs[0])
            put_in_place(old.outputs[0], new)
        _unflatten(node, made.outputs[0])
        for each in (node, self.keys, self.values):
            remove_unused(each)


ALLOWED = ("scale", "q_num_heads", "kv_num_heads")
"""Attributes of Attention that the node has too, or that say the sizes. Others are refused unless they are 0."""


def _number(node: ir.Node, name: str) -> float:
    return node.attributes[name].value if name in node.attributes else 0


def _joined(past: ir.Value) -> ir.Node:
    """The node that puts new keys or values behind those of the cache, which nothing else uses."""
    users = [user for user in past.consumers() if user.op_type != "Shape"]
    node = users[0] if len(users) == 1 else None
    if node is None or node.op_type != "Concat" or len(node.inputs) != 2 or node.inputs[0] is not past:
        raise NotInPlaceError(f"'{past.name}' is not joined with the new tokens first")
    if _number(node, "axis") not in (2, -2) or not node.outputs[0].is_graph_output():
        raise NotInPlaceError(f"'{past.name}' is not joined along its tokens")
    return node


class _Counts:
    """The number of tokens as the node takes it, and masks as it adds them: one of each for all layers."""

    def __init__(self, graph: ir.Graph) -> None:
        self._graph = graph
        self._inputs = {str(value.name): value for value in graph.inputs}
        self._first = next(iter(graph))
        self._made: dict[str, ir.Value] = {}
        self._biases: dict[ir.Value, ir.Value] = {}

    def _once(self, name: str, kind: str, inputs: Sequence[ir.Value], attributes: Mapping[str, float]) -> ir.Value:
        if name not in self._made:
            node = insert(self._first, kind, inputs, attributes, name=f"cache/{name}")
            self._made[name] = node.outputs[0]
        return self._made[name]

    def _shape(self, name: str, value: str, axis: int) -> ir.Value:
        return self._once(name, "Shape", [self._inputs[value]], {"start": axis, "end": axis + 1})

    def tokens(self) -> ir.Value:
        """int64 [1]: all tokens, with the new ones."""
        return self._shape("tokens", MASK, 1)

    def past(self) -> ir.Value:
        """int64 [1]: tokens that the cache holds."""
        return self._once("past", "Sub", [self.tokens(), self._shape("new", IDS, 1)], {})

    def total(self) -> ir.Value:
        """int32 scalar: all tokens."""
        axes = constant(self._graph, np.zeros(0, np.int64))
        scalar = self._once("scalar", "Reshape", [self.tokens(), axes], {})
        return self._once("total", "Cast", [scalar], {"to": ir.DataType.INT32.value})

    def last(self) -> ir.Value:
        """int32 [batch]: the last token of each text."""
        one = constant(self._graph, np.array([1], np.int64))
        index = self._once("index", "Sub", [self.tokens(), one], {})
        short = self._once("short", "Cast", [index], {"to": ir.DataType.INT32.value})
        return self._once("last", "Expand", [short, self._shape("batch", IDS, 0)], {})

    def own_last(self) -> ir.Value:
        """int32 [batch]: the last token of each text without what fills it up; -1 where that stands at its beginning.

        The CPU provider refuses -1, so that no text is computed with tokens that only fill it up.
        """
        one = constant(self._graph, np.array([1], np.int64))
        tokens = self._once("own_tokens", "ReduceSum", [self._inputs[MASK], one], {"keepdims": 0})
        scalar = constant(self._graph, np.array(0, np.int64))
        first = self._once("first", "Gather", [self._inputs[MASK], scalar], {"axis": 1})
        counted = self._once("counted", "Mul", [tokens, first], {})
        index = self._once("own_index", "Sub", [counted, one], {})
        return self._once("own_last", "Cast", [index], {"to": ir.DataType.INT32.value})

    def bias(self, before: ir.Node, mask: ir.Value | None) -> ir.Value:
        """The numbers that a mask adds to the scores, [batch or 1, heads or 1, new tokens, all tokens]."""
        assert mask is not None
        sizes = sizes_of(mask)
        if sizes is None or len(sizes) != 4:
            raise NotInPlaceError(f"its mask '{mask.name}' has no axis for heads")
        if mask.dtype != ir.DataType.BOOL:
            return mask
        if mask not in self._biases:
            kind = next(value.dtype for name, value in self._inputs.items() if name.startswith(f"{CACHE}."))
            assert kind is not None
            zero, low = (constant(self._graph, np.array(x, kind.numpy())) for x in (0.0, HIDDEN[kind]))
            made = insert(before, "Where", [mask, zero, low], {}).outputs[0]
            describe(made, mask)
            made.type = ir.TensorType(kind)  # the mask's own type object is not to change
            self._biases[mask] = made
        return self._biases[mask]

    def replace_shapes(self, value: ir.Value) -> None:
        """Answer by the mask where the graph asks how many tokens a cache has, which is its room now."""
        for node in [user for user in value.consumers() if user.op_type == "Shape"]:
            start, end = _number(node, "start"), _number(node, "end")
            if (start, end) == (2, 3):
                put_in_place(node.outputs[0], self.past() if value.is_graph_input() else self.tokens())
                remove_unused(node)
            elif not (0 <= start < end <= 2 or start == 3):
                raise NotInPlaceError(f"the sizes of '{value.name}' are used together")


def _flat(before: ir.Node, heads: ir.Value | None) -> ir.Value:
    """Heads [batch, heads, tokens, size] side by side, [batch, tokens, heads · size]."""
    assert heads is not None
    sizes = sizes_of(heads)
    assert sizes is not None
    rotary = made_by(heads, "RotaryEmbedding")
    if rotary is not None and "num_heads" not in rotary.attributes and len(rotary.inputs) == 3:
        source = _flat(before, rotary.inputs[0])
        attributes = {name: each.value for name, each in rotary.attributes.items()} | {"num_heads": sizes[1]}
        made = insert(before, "RotaryEmbedding", [source, *rotary.inputs[1:]], attributes).outputs[0]
        describe(made, source)
        return made
    transpose = made_by(heads, "Transpose")
    if transpose is None or list(transpose.attributes["perm"].as_ints()) != PERMUTED:
        transpose = insert(before, "Transpose", [heads], {"perm": PERMUTED})
    apart = transpose.inputs[0] if transpose.inputs[0] is not heads else transpose.outputs[0]
    flat = (sizes[0], sizes[2], sizes[1] * sizes[3])
    reshape = made_by(apart, "Reshape")
    if reshape is not None and sizes_of(reshape.inputs[0]) == flat:
        assert reshape.inputs[0] is not None
        return reshape.inputs[0]
    shape = constant(before.graph, np.array([0, 0, int(flat[2])], np.int64))
    made = insert(before, "Reshape", [apart, shape], {}).outputs[0]
    made.meta[SIZES], made.type = flat, heads.type
    return made


def _unflatten(attention: ir.Node, flat: ir.Value) -> None:
    """Give the result of the new node to those that used that of the old one, its heads apart again if they ask."""
    result = attention.outputs[0]
    heads = sizes_of(result)
    assert heads is not None
    side_by_side = (heads[0], heads[2], heads[1] * heads[3])
    flat.type, flat.meta[SIZES] = result.type, side_by_side
    for transpose in list(result.consumers()):
        is_turned = transpose.op_type == "Transpose" and list(transpose.attributes["perm"].as_ints()) == PERMUTED
        for reshape in list(transpose.outputs[0].consumers()) if is_turned else ():
            if reshape.op_type == "Reshape" and sizes_of(reshape.outputs[0]) == side_by_side:
                describe(flat, reshape.outputs[0])
                put_in_place(reshape.outputs[0], flat)
                remove_unused(reshape)
    if result.uses() or result.is_graph_output():
        shape = constant(attention.graph, np.array([0, 0, int(heads[1]), int(heads[3])], np.int64))
        apart = insert(attention, "Reshape", [flat, shape], {})
        turned = insert(attention, "Transpose", [apart.outputs[0]], {"perm": PERMUTED}).outputs[0]
        describe(turned, result)
        put_in_place(result, turned)
