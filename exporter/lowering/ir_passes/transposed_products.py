"""Products of transposed matrices, as training steps are full of them, in one node each."""

from __future__ import annotations

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.patterns import describe, fixed, nodes_of, put_in_place, remove_unused, sizes_of
from fxport.exporter.lowering.lower.producers import made_by

EXACT = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
"""Dtypes that every provider has a Gemm for."""


class TransposedProducts(ir.passes.InPlacePass):
    """Gemm reads its operands transposed; nothing is copied then. What is transposed back is as it was.

    Given:   %t = Transpose(%x, perm=[1, 0]); %m = MatMul(%t, %grad); %a = Transpose(%m); %b = Transpose(%a)
    Result:  %b = Gemm(%x, %grad, transA=1)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        modified = False
        for node in nodes_of(model):
            if node.domain or node.graph is None:
                continue
            if node.op_type == "MatMul":
                modified |= _with_flags(node)
            elif node.op_type == "Transpose":
                modified |= _turned_back(node)
        return ir.passes.PassResult(model, modified)


def _with_flags(product: ir.Node) -> bool:
    transposed = [_transposed(value) for value in product.inputs]
    if not any(transposed) or product.outputs[0].dtype not in EXACT:
        return False
    if any(len(sizes_of(value) or ()) != 2 for value in product.inputs):
        return False
    inputs = [value if made is None else made.inputs[0] for value, made in zip(product.inputs, transposed, strict=True)]
    flags = [
        ir.AttrInt64(name, 1) for name, made in zip(("transA", "transB"), transposed, strict=True) if made is not None
    ]
    assert product.graph is not None
    gemm = ir.Node("", "Gemm", inputs, flags, name=f"{product.name}/Gemm")
    gemm.metadata_props.update(product.metadata_props)
    gemm.outputs[0].name = gemm.name
    describe(gemm.outputs[0], product.outputs[0])
    product.graph.insert_before(product, gemm)
    put_in_place(product.outputs[0], gemm.outputs[0])
    remove_unused(product)
    return True


def _transposed(value: ir.Value | None) -> ir.Node | None:
    """The node that transposes a matrix; weights are stored transposed instead, and none of theirs counts."""
    node = made_by(value, "Transpose")
    if node is None or fixed(node.inputs[0]) is not None:
        return None
    perm = node.attributes.get("perm")
    return node if perm is not None and list(perm.as_ints()) == [1, 0] else None


def _turned_back(outer: ir.Node) -> bool:
    """Replace a matrix that was transposed twice by the original; return True if that was done."""
    inner = _transposed(outer.inputs[0]) if _transposed(outer.outputs[0]) is outer else None
    if inner is None or inner.inputs[0] is None:
        return False
    done = put_in_place(outer.outputs[0], inner.inputs[0])
    remove_unused(outer)
    return done
