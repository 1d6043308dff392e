"""Folding of operators on constants: shape arithmetic, small tables, masks of static size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
from onnx.reference import ReferenceEvaluator

from fxport.exporter.lowering.ir_passes.patterns import fixed, nodes_of

FOLDED_BYTES = 4096
"""Largest result, and largest operand, that is folded: enough for shapes and scalars, too little to matter on disk."""

FOLDABLE = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Cast",
        "CastLike",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Cos",
        "Div",
        "Equal",
        "Exp",
        "Expand",
        "Floor",
        "Gather",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Pow",
        "Range",
        "Reciprocal",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Round",
        "Shape",
        "Sin",
        "Slice",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Transpose",
        "Unsqueeze",
        "Where",
        "Xor",
    ]
)
"""Operators that are cheap and exact in ONNX's reference evaluator."""


class FoldConstants(ir.passes.InPlacePass):
    """Replaces nodes on small constants by their results; weights are never read.

    Given:   %b = Cast(%a = 2, to=FLOAT); %c = Sqrt(%b); %y = Mul(%x, %c)
    Result:  %y = Mul(%x, 1.4142135)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        folder = _Folder(model)
        for node in nodes_of(model):
            folder.fold(node)
        return ir.passes.PassResult(model, folder.modified)


class _Folder:
    def __init__(self, model: ir.Model) -> None:
        self.graph = model.graph
        self.opset = model.opset_imports[""]
        self.arrays: dict[ir.Value, np.ndarray] = {}
        self.results: dict[tuple[str, tuple[int, ...], bytes], ir.Value] = {}
        self.modified = False

    def fold(self, node: ir.Node) -> None:
        if node.domain or node.op_type not in FOLDABLE or len(node.outputs) != 1 or node.outputs[0].is_graph_output():
            return
        static = _static_shape(node)
        if static is not None:
            self._replace(node, static)
            return
        operands = [self._array(value) for value in node.inputs if value is not None]
        if len(operands) == len(node.inputs) and all(operand is not None for operand in operands):
            result = self._evaluate(node, operands)
            if result is not None and result.nbytes <= FOLDED_BYTES:
                self._replace(node, result)

    def _array(self, value: ir.Value) -> np.ndarray | None:
        """A small constant's content; None for weights, which are lazy, and for everything computed."""
        if value in self.arrays:
            return self.arrays[value]
        tensor = fixed(value)
        if not isinstance(tensor, ir.Tensor) or tensor.nbytes > FOLDED_BYTES:
            return None
        self.arrays[value] = tensor.numpy()
        return self.arrays[value]

    def _evaluate(self, node: ir.Node, operands: list[np.ndarray | None]) -> np.ndarray | None:
        if node.op_type in ("Expand", "ConstantOfShape") and np.prod(operands[-1]) * 8 > FOLDED_BYTES:  # type: ignore[arg-type]
            return None
        names = [f"x{i}" for i in range(len(operands))]
        proto = ir.to_proto(node)
        del proto.input[:], proto.output[:]
        proto.input.extend(names)
        proto.output.append("y")
        graph = onnx.helper.make_graph(
            [proto],
            "fold",
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names],
            [onnx.helper.make_value_info("y", onnx.TypeProto())],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)])
        with np.errstate(all="ignore"):
            (result,) = ReferenceEvaluator(model).run(None, dict(zip(names, operands, strict=True)))
        return np.asarray(result)

    def _replace(self, node: ir.Node, array: np.ndarray) -> None:
        output = node.outputs[0]
        if output.dtype is not None:
            array = array.astype(output.dtype.numpy(), copy=False)
        output.replace_all_uses_with(self._constant(array, f"{output.name}.folded"))
        assert node.graph is not None
        node.graph.remove(node, safe=True)
        self.modified = True

    def _constant(self, array: np.ndarray, name: str) -> ir.Value:
        """A constant of the graph; equal results are one, so that nodes on them are equal, too."""
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self.results:
            while name in self.graph.initializers:  # values of two branches may have one name
                name += ".folded"
            tensor = ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
            self.graph.initializers.add(value)
            self.arrays[value] = array
            self.results[key] = value
        return self.results[key]


def _static_shape(node: ir.Node) -> np.ndarray | None:
    """The result of a Shape node, where the sizes that it asks for are numbers."""
    if node.op_type != "Shape" or node.inputs[0] is None or node.inputs[0].shape is None:
        return None
    attributes: Mapping[str, ir.Attr] = node.attributes
    sizes = list(node.inputs[0].shape)
    start = attributes["start"].as_int() if "start" in attributes else 0
    end = attributes["end"].as_int() if "end" in attributes else len(sizes)
    wanted = sizes[start:end]
    return np.array(wanted, np.int64) if all(isinstance(size, int) for size in wanted) else None
