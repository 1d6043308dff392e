"""Products with weights in few bits: operators of ONNX Runtime, said explicitly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from fxport.exporter.language_models.few_bits import FewBits
from fxport.exporter.language_models.from_table import TABLES, FromTable, Packed
from fxport.exporter.language_models.inserting import constant, insert
from fxport.exporter.lowering.ir_passes.patterns import (
    describe,
    fixed,
    put_in_place,
    remove_unused,
    sizes_of,
    transposed,
)

DOMAIN = "com.microsoft"
LEVELS: Mapping[str, int] = {"exact": 1, "fast": 4}
"""Accuracy levels of MatMulNBits: in float32, or with the inputs rounded to 8 bits too."""


class StoreFewBits(ir.passes.InPlacePass):
    """Products with weights that are known in few bits become products with these; what is tied is stored once.

    Offsets of blocks are a product of their own, with the sums of the inputs of each block. Weights of a table are
    products `MatMulBnb4`.

    Given:   %y = MatMul(%x, %weight); %e = Gather(%table, %ids)
    Result:  %y = MatMulNBits(%x, %numbers, %scales); %e = GatherBlockQuantized(Reshape(%numbers), %ids, %scales)

    A weight with another use stays as it is, and so do its products.
    """

    def __init__(self, weights: Mapping[str, Packed], accuracy: str) -> None:
        self._weights, self._level = weights, LEVELS[accuracy]
        self.replaced: set[str] = set()

    @property
    def blocks(self) -> dict[str, int]:
        """The weights whose products have levels, and the numbers of each that share a scale."""
        held = {name: self._weights[name] for name in sorted(self.replaced)}
        return {name: weight.block for name, weight in held.items() if isinstance(weight, FewBits)}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        for name in [name for name in graph.initializers if name in self._weights]:
            uses, weight = _uses(graph.initializers[name]), self._weights[name]
            if not uses or not all(each.fits(weight) for each in uses):
                continue
            written = WRITERS[type(weight)]
            stored = written.store(graph, name, weight)
            for each in uses:
                written.replace[each.node.op_type](each.node, stored, weight, self._level)
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

    def fits(self, weight: Packed) -> bool:
        """Return True if the node reads the very matrix of `weight`, by columns in a product and by rows as a table."""
        node = self.node
        position = POSITIONS.get(node.op_type)
        if node.domain or position is None or node.inputs[position] is not self.value or self.tensor is None:
            return False
        if node.op_type not in WRITERS[type(weight)].replace:
            return False
        if any(number not in PLAIN[name] for name in PLAIN if (number := _number(node, name)) is not None):
            return False
        turned = self.is_direct == (_number(node, "transB") in (None, 0)) and node.op_type != "Gather"
        held = self.tensor.numpy()
        same = weight.stands_for(held.T if turned else held)
        ranked = getattr(weight, "offsets", None) is None or _rank(self.moving) is not None
        return same and ranked and (node.op_type != "Gather" or self.is_direct)

    @property
    def moving(self) -> ir.Value | None:
        """The other input: what is multiplied, or the rows that are looked up."""
        return self.node.inputs[1 - POSITIONS[self.node.op_type]]


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


@dataclass(frozen=True, slots=True)
class _Stored:
    """Constants of the graph: numbers and scales, and zeros where they are not the middle; offsets [blocks, rows]."""

    inputs: tuple[ir.Value, ...]
    offsets: ir.Value | None


def _stored(graph: ir.Graph, name: str, weight: FewBits) -> _Stored:
    numbers = _constant(graph, f"{name}.q{weight.bits}", weight.numbers)
    scales, offsets = _constant(graph, f"{name}.scales", weight.scales), weight.centered_offsets
    if offsets is not None:
        turned = transposed(offsets, (1, 0))
        return _Stored((numbers, scales), _constant(graph, f"{name}.offsets", turned))
    zeros = weight.packed_zeros
    return _Stored((numbers, scales, *([] if zeros is None else [_constant(graph, f"{name}.zeros", zeros)])), None)


def _rank(value: ir.Value | None) -> int | None:
    """The number of axes of a value; None where it is unknown."""
    sizes = sizes_of(value)
    if sizes is not None:
        return len(sizes)
    return len(value.shape) if value is not None and value.shape is not None else None


def _constant(graph: ir.Graph, name: str, array: np.ndarray) -> ir.Value:
    tensor = ir.Tensor(array, name=name)
    value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    graph.register_initializer(value)
    return value


def _multiply(user: ir.Node, stored: _Stored, weight: FewBits, level: int) -> None:
    attributes = {
        "K": weight.columns,
        "N": weight.scales.shape[0],
        "bits": weight.bits,
        "block_size": weight.block,
        "accuracy_level": level,
    }
    factor = user.inputs[0]
    result = _made(user, "MatMulNBits", [factor, *stored.inputs], attributes)
    if stored.offsets is not None:
        blocks = _in_blocks(user, factor, weight)
        last = constant(user.graph, np.array([-1], np.int64))
        sums = _made(user, "ReduceSum", [blocks, last], {"keepdims": 0}, domain="", described=False)
        more = _made(user, "MatMul", [sums, stored.offsets], {}, domain="")
        result = _made(user, "Add", [result, more], {}, domain="")
    _finish(user, result)


def _finish(user: ir.Node, result: ir.Value) -> None:
    """Put a product in the place of one that may have added a bias too."""
    if user.op_type == "Gemm" and len(user.inputs) > 2 and user.inputs[2] is not None:
        result = _made(user, "Add", [result, user.inputs[2]], {}, domain="")
    put_in_place(user.outputs[0], result)
    remove_unused(user)


def _gather(user: ir.Node, stored: _Stored, weight: FewBits, level: int) -> None:
    numbers, *others = stored.inputs
    ids = user.inputs[1]
    shape = constant(user.graph, np.array([weight.scales.shape[0], weight.columns * weight.bits // 8], np.int64))
    flat = _made(user, "Reshape", [numbers, shape], {}, domain="", described=False)
    attributes = {"bits": weight.bits, "block_size": weight.block, "gather_axis": 0, "quantize_axis": 1}
    result = _made(user, "GatherBlockQuantized", [flat, ids, *others], attributes)  # it computes in float32
    if stored.offsets is not None:
        rank = _rank(ids)
        assert rank is not None  # `fits` has asked
        columns = _made(user, "Gather", [stored.offsets, ids], {"axis": 1}, domain="", described=False)
        turned = _made(user, "Transpose", [columns], {"perm": [*range(1, rank + 1), 0]}, domain="", described=False)
        last = constant(user.graph, np.array([-1], np.int64))
        offsets = _made(user, "Unsqueeze", [turned, last], {}, domain="", described=False)
        blocks = _in_blocks(user, result, weight)
        whole = _made(user, "Add", [blocks, offsets], {}, domain="", described=False)
        sizes = constant(user.graph, np.array([*[0] * rank, weight.columns], np.int64))
        result = _made(user, "Reshape", [whole, sizes], {}, domain="")
    put_in_place(user.outputs[0], result)
    remove_unused(user)


def _in_blocks(user: ir.Node, value: ir.Value | None, weight: FewBits) -> ir.Value:
    """Rows [..., columns] as [..., blocks, block]."""
    rank = _rank(value)
    assert rank is not None  # `fits` has asked
    shape = constant(user.graph, np.array([*[0] * (rank - 1), weight.columns // weight.block, weight.block], np.int64))
    return _made(user, "Reshape", [value, shape], {}, domain="", described=False)


def _made(
    user: ir.Node,
    kind: str,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, object],
    domain: str = DOMAIN,
    *,
    described: bool = True,
) -> ir.Value:
    """The result of a node before `user`, described as that of `user` where it has its type and sizes."""
    made = insert(user, kind, inputs, attributes, domain=domain).outputs[0]
    if described:
        describe(made, user.outputs[0])
    return made


def _stored_table(graph: ir.Graph, name: str, weight: FromTable) -> _Stored:
    places = _constant(graph, f"{name}.{weight.kind}", weight.numbers)
    return _Stored((places, _constant(graph, f"{name}.scales", weight.scales)), None)


def _multiply_table(user: ir.Node, stored: _Stored, weight: FromTable, level: int) -> None:
    number, _ = TABLES[weight.kind]
    attributes = {"K": weight.columns, "N": weight.rows, "block_size": weight.block, "quant_type": number}
    _finish(user, _made(user, "MatMulBnb4", [user.inputs[0], *stored.inputs], attributes))


@dataclass(frozen=True, slots=True)
class _Writer:
    """The constants of a kind of weights, and what replaces the operators that may use them."""

    store: Callable[[ir.Graph, str, Any], _Stored]
    replace: Mapping[str, Callable[[ir.Node, _Stored, Any, int], None]]


WRITERS: Mapping[type, _Writer] = {
    FewBits: _Writer(_stored, {"MatMul": _multiply, "Gemm": _multiply, "Gather": _gather}),
    FromTable: _Writer(_stored_table, {"MatMul": _multiply_table, "Gemm": _multiply_table}),
}


def _remove_weight(graph: ir.Graph, name: str) -> None:
    weight = graph.initializers[name]
    for use in list(weight.uses()):
        remove_unused(use.node)
    del graph.initializers[name]
