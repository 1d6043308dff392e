"""Products with weights in few bits: `MatMulNBits` and `GatherBlockQuantized` of ONNX Runtime, said explicitly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from fxport.exporter.language_models.few_bits import FewBits
from fxport.exporter.lowering.ir_passes.patterns import describe, fixed, put_in_place, remove_unused

DOMAIN = "com.microsoft"
LEVELS: Mapping[str, int] = {"exact": 1, "fast": 4}
"""Accuracy levels of MatMulNBits: in float32, or with the inputs rounded to 8 bits too."""


class StoreFewBits(ir.passes.InPlacePass):
    """Products with weights that are known in few bits become products with these; what is tied is stored once.

    Given:   %y = MatMul(%x, %weight); %e = Gather(%table, %ids)
    Result:  %y = MatMulNBits(%x, %numbers, %scales); %e = GatherBlockQuantized(Reshape(%numbers), %ids, %scales)

    A weight with another use stays as it is, and so do its products.
    """

    def __init__(self, weights: Mapping[str, FewBits], accuracy: str) -> None:
        self._weights, self._level = weights, LEVELS[accuracy]
        self.replaced: set[str] = set()

    @property
    def blocks(self) -> dict[str, int]:
        """The weights that were replaced, and the numbers of each that share a scale."""
        return {name: self._weights[name].block for name in sorted(self.replaced)}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        for name in [name for name in graph.initializers if name in self._weights]:
            uses, weight = _uses(graph.initializers[name]), self._weights[name]
            if not uses or not all(each.fits(weight) for each in uses):
                continue
            stored = _stored(graph, name, weight)
            for each in uses:
                if each.node.op_type == "Gather":
                    _gather(each.node, stored, weight)
                else:
                    _multiply(each.node, stored, weight, self._level)
            _remove_weight(graph, name)
            self.replaced.add(name)
        if self.replaced:
            model.opset_imports.setdefault(DOMAIN, 1)
        return ir.passes.PassResult(model, bool(self.replaced))


@dataclass(frozen=True, slots=True)
class _Use:
    """A node that uses a weight, the value that it takes, and whether that is the weight itself, not transposed."""

    node: ir.Node
    value: ir.Value
    tensor: ir.TensorProtocol | None
    is_direct: bool

    def fits(self, weight: FewBits) -> bool:
        """Return True if the node reads the very matrix of `weight`, by columns in a product and by rows as a table."""
        node = self.node
        position = POSITIONS.get(node.op_type)
        if node.domain or position is None or node.inputs[position] is not self.value or self.tensor is None:
            return False
        if any(number not in PLAIN[name] for name in PLAIN if (number := _number(node, name)) is not None):
            return False
        turned = self.is_direct == (_number(node, "transB") in (None, 0)) and node.op_type != "Gather"
        matrix = weight.restored().numpy()
        held = self.tensor.numpy()
        return (node.op_type != "Gather" or self.is_direct) and np.array_equal(held, matrix.T if turned else matrix)


POSITIONS: Mapping[str, int] = {"MatMul": 1, "Gemm": 1, "Gather": 0}
"""Index of the input of an operator that a weight in few bits may be."""

PLAIN: Mapping[str, tuple[float, ...]] = {"alpha": (1,), "beta": (1,), "transA": (0,), "transB": (0, 1), "axis": (0,)}
"""Attributes of these operators, and the numbers that they may have."""


def _number(node: ir.Node, name: str) -> float | None:
    return node.attributes[name].value if name in node.attributes else None


def _uses(weight: ir.Value) -> list[_Use]:
    """The nodes that use a weight, through a transposition or not."""
    found: list[_Use] = []
    for use in weight.uses():
        node, tensor = use.node, fixed(weight)
        if node.op_type == "Transpose" and not node.domain:
            turned = node.outputs[0]
            found += [_Use(further.node, turned, tensor, is_direct=False) for further in turned.uses()]
        else:
            found.append(_Use(node, weight, tensor, is_direct=True))
    return found


def _stored(graph: ir.Graph, name: str, weight: FewBits) -> tuple[ir.Value, ...]:
    """Numbers and scales, and zeros where they are not the middle, as constants of the graph."""
    numbers = _constant(graph, f"{name}.q{weight.bits}", weight.numbers)
    scales, zeros = _constant(graph, f"{name}.scales", weight.scales), weight.packed_zeros
    return (numbers, scales) if zeros is None else (numbers, scales, _constant(graph, f"{name}.zeros", zeros))


def _constant(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    tensor = ir.Tensor(array, name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def _multiply(user: ir.Node, stored: Sequence[ir.Value], weight: FewBits, level: int) -> None:
    attributes = {
        "K": weight.columns,
        "N": weight.scales.shape[0],
        "bits": weight.bits,
        "block_size": weight.block,
        "accuracy_level": level,
    }
    bias = user.inputs[2] if user.op_type == "Gemm" and len(user.inputs) > 2 else None
    product = _node(user, "MatMulNBits", [user.inputs[0], *stored], attributes)
    result = product.outputs[0]
    if bias is not None:
        result = _node(user, "Add", [result, bias], {}, domain="").outputs[0]
    put_in_place(user.outputs[0], result)
    remove_unused(user)


def _gather(user: ir.Node, stored: Sequence[ir.Value], weight: FewBits) -> None:
    graph, (numbers, *others) = user.graph, stored
    assert isinstance(graph, ir.Graph)
    rows = weight.scales.shape[0]
    shape = _constant(graph, f"{numbers.name}.rows", np.array([rows, weight.columns * weight.bits // 8], np.int64))
    flat = _node(user, "Reshape", [numbers, shape], {}, domain="", described=False)
    attributes = {"bits": weight.bits, "block_size": weight.block, "gather_axis": 0, "quantize_axis": 1}
    inputs = [flat.outputs[0], user.inputs[1], *others]
    put_in_place(user.outputs[0], _node(user, "GatherBlockQuantized", inputs, attributes).outputs[0])
    remove_unused(user)


def _node(
    user: ir.Node,
    kind: str,
    inputs: list[ir.Value | None],
    attributes: Mapping[str, int],
    domain: str = DOMAIN,
    *,
    described: bool = True,
) -> ir.Node:
    """A node before `user`, at its place in the source, whose output is described as that of `user`."""
    made = ir.Node(
        domain,
        kind,
        inputs,
        [ir.AttrInt64(name, value) for name, value in attributes.items()],
        name=f"{user.name}/{kind}",
    )
    made.metadata_props.update(user.metadata_props)
    made.outputs[0].name = made.name
    if described:
        describe(made.outputs[0], user.outputs[0])
    assert user.graph is not None
    user.graph.insert_before(user, made)
    return made


def _remove_weight(graph: ir.Graph, name: str) -> None:
    weight = graph.initializers[name]
    for use in list(weight.uses()):
        remove_unused(use.node)
    del graph.initializers[name]
