"""Equal nodes on equal operands are one, unless they are random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as ir
from onnx_ir.passes.common import CommonSubexpressionEliminationPass

RANDOM = frozenset({"Bernoulli", "Dropout"})
"""Random operators that the stock pass does not know as such: two of them are never equal."""

MARK = "fxport_number"


class ShareEqualNodes(ir.passes.InPlacePass):
    """The stock pass, which compares operators, operands and attributes; random nodes differ in a passing attribute.

    Given:   %a = Exp(%x); %b = Exp(%x); %c = Dropout(%x); %d = Dropout(%x)
    Result:  %a = Exp(%x); %c = Dropout(%x); %d = Dropout(%x)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        random = [node for node in model.graph if not node.domain and node.op_type in RANDOM]
        with _told_apart(random), _typed_outputs(model.graph):
            return CommonSubexpressionEliminationPass()(model)


@contextmanager
def _told_apart(nodes: Sequence[ir.Node]) -> Iterator[None]:
    for number, node in enumerate(nodes):
        node.attributes[MARK] = ir.AttrInt64(MARK, number)
    try:
        yield
    finally:
        for node in nodes:
            node.attributes.pop(MARK, None)


@contextmanager
def _typed_outputs(graph: ir.Graph) -> Iterator[None]:
    """The stock pass makes an Identity for the second of two equal outputs, and gives it no shape."""
    before = [(value.shape, value.type) for value in graph.outputs]
    yield
    for value, (shape, type_) in zip(graph.outputs, before, strict=True):
        if value.shape is None:
            value.shape = shape
        if value.type is None:
            value.type = type_
