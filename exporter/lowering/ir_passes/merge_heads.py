"""Attention on heads side by side in one axis, which is how linear layers give and take them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import constant_of, describe, put_in_place, remove_unused, sizes_of
from fxport.exporter.lowering.lower.builder import SIZES
from fxport.exporter.lowering.lower.producers import made_by
from fxport.fx_passes.sizes import Size


class MergeHeads(ir.passes.InPlacePass):
    """Takes away the reshaping around Attention: 20% of its time in ONNX Runtime on the CPU, and eight nodes a layer.

    Heads that PyTorch repeats for groups of queries are read once. Rotary embeddings between are merged likewise.

    Given:   %q4 = Transpose(Reshape(%q, [0, 0, 12, 64]), perm=[0, 2, 1, 3]), likewise %k4 and %v4;
             %y = Reshape(Transpose(Attention(%q4, %k4, %v4), perm=[0, 2, 1, 3]), [0, 0, 768])
    Result:  %y = Attention(%q, %k, %v, q_num_heads=12, kv_num_heads=12)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        nodes = ir.traversal.RecursiveGraphIterator(model.graph)
        found = [node for node in nodes if node.op_type == "Attention" and not node.domain]
        changed = [step(node) for node in found for step in (_read_once, _merge)]
        return ir.passes.PassResult(model, any(changed))


# Repeated heads -------------------------------------------------------------------------------------------------------


def _read_once(attention: ir.Node) -> bool:
    """Keys and values before their repetition: Attention itself lets several heads of queries share one of theirs."""
    key, value = (_unrepeated(attention.inputs[index]) for index in (1, 2))
    if key is None or value is None or sizes_of(key)[1] != sizes_of(value)[1]:  # type: ignore[index]  # both are known
        return False
    for index, single in ((1, key), (2, value)):
        repeated = attention.inputs[index]
        attention.replace_input_with(index, single)
        remove_unused(repeated.producer() if repeated is not None else None)
    return True


def _unrepeated(value: ir.Value | None) -> ir.Value | None:
    """x, [batch, heads, length, width], where a value is every head of x several times in a row."""
    reshape = made_by(value, "Reshape")
    expand = made_by(reshape.inputs[0], "Expand") if reshape is not None else None
    unsqueeze = made_by(expand.inputs[0], "Unsqueeze") if expand is not None else None
    if reshape is None or expand is None or unsqueeze is None:
        return None
    x, spread, flat = (sizes_of(each) for each in (unsqueeze.inputs[0], expand.outputs[0], reshape.outputs[0]))
    axes = constant_of(unsqueeze.inputs[1])
    if x is None or spread is None or flat is None or axes is None or axes.tolist() != [2] or len(x) != 4:
        return None
    batch, heads, length, width = x
    times = spread[2]
    expected = (batch, heads, times, length, width), (batch, heads * times, length, width)
    return unsqueeze.inputs[0] if (spread, flat) == expected else None


# Heads side by side ---------------------------------------------------------------------------------------------------


def _merge(attention: ir.Node) -> bool:
    operands, result = attention.inputs[:3], attention.outputs[0]
    if len(attention.inputs) > 4 or len(attention.outputs) > 1 or "q_num_heads" in attention.attributes:
        return False
    sources = [_merged(operand) for operand in operands]
    targets = _targets(result)
    if targets is None or any(source is None for source in sources):
        return False
    query_heads, key_heads = (operand.meta[SIZES][1] for operand in operands[:2])  # type: ignore[union-attr]
    for index, operand in enumerate(operands):
        assert operand is not None
        attention.replace_input_with(index, _side_by_side(attention, operand))
    attention.attributes.add(ir.AttrInt64("q_num_heads", query_heads))
    attention.attributes.add(ir.AttrInt64("kv_num_heads", key_heads))
    _give(result, targets)
    return True


def _merged(value: ir.Value | None) -> ir.Value | None:
    """[batch, length, heads · width] that a value, [batch, heads, length, width], was made of, but for a rotation."""
    rotary = made_by(value, "RotaryEmbedding")
    if rotary is not None:
        alone = value is not None and len(value.uses()) == 1 and not value.is_graph_output()
        plain = "num_heads" not in rotary.attributes and len(rotary.inputs) == 3
        return _merged(rotary.inputs[0]) if alone and plain else None
    transpose = made_by(value, "Transpose")
    reshape = made_by(transpose.inputs[0], "Reshape") if transpose is not None else None
    if transpose is None or reshape is None or not _exchanges_middle(transpose):
        return None
    source, apart = sizes_of(reshape.inputs[0]), sizes_of(reshape.outputs[0])
    if source is None or apart is None or len(apart) != 4 or not all(isinstance(size, int) for size in apart[2:]):
        return None
    return reshape.inputs[0] if source == (*apart[:2], apart[2] * apart[3]) else None


def _exchanges_middle(transpose: ir.Node) -> bool:
    return "perm" in transpose.attributes and list(transpose.attributes["perm"].as_ints()) == [0, 2, 1, 3]


def _side_by_side(attention: ir.Node, operand: ir.Value) -> ir.Value:
    """The operand's source; behind a rotation, the source rotated."""
    source = _merged(operand)
    assert source is not None
    rotary = made_by(operand, "RotaryEmbedding")
    if rotary is None:
        return source
    fresh = ir.Value(name=f"{operand.name}.merged")
    heads = ir.convenience.convert_attributes({"num_heads": operand.meta[SIZES][1]})
    attributes = [*rotary.attributes.values(), *heads]
    node = ir.Node("", "RotaryEmbedding", [source, *rotary.inputs[1:]], attributes, outputs=[fresh], name=fresh.name)
    node.metadata_props.update(rotary.metadata_props)
    describe(fresh, source)
    assert attention.graph is not None
    attention.graph.insert_before(attention, node)
    return fresh


def _targets(result: ir.Value) -> list[ir.Value] | None:
    """The reshaped forms in which a result is used, if all its uses are such: its heads side by side again."""
    if result.is_graph_output():
        return None
    found: list[ir.Value] = []
    for transpose in result.consumers():
        if (
            transpose.op_type != "Transpose"
            or not _exchanges_middle(transpose)
            or transpose.outputs[0].is_graph_output()
        ):
            return None
        apart = sizes_of(transpose.outputs[0])
        for reshape in transpose.outputs[0].consumers():
            flat = sizes_of(reshape.outputs[0]) if reshape.op_type == "Reshape" else None
            if apart is None or flat is None or not _is_flat(apart, flat):
                return None
            found.append(reshape.outputs[0])
    outputs = sum(target.is_graph_output() for target in found)
    return found if found and outputs < 2 else None  # one value cannot be two outputs


def _is_flat(apart: Sequence[Size], flat: Sequence[Size]) -> bool:
    return all(isinstance(size, int) for size in apart[2:]) and tuple(flat) == (*apart[:2], apart[2] * apart[3])


def _give(result: ir.Value, targets: Sequence[ir.Value]) -> None:
    """Puts Attention's result in the place of its reshaped forms."""
    describe(result, targets[0])
    for target in targets:
        put_in_place(target, result)
