"""What ONNX Runtime computes of products with weights in 8 and 4 bits, in each form that a model can have them in.

    python benchmarks/quantized_products.py

Prints the table of docs/decisions/quantized-products.md: the largest difference from the product in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from fxport.ort_runner.dtypes import pack

LEADING, TERMS, OUTPUTS = (2, 3), 64, 32
GROUP = 32
"""Terms that have a scale in common, where the weight is quantized by group."""
OPSET, IR_VERSION = 21, 10
"""The first opset with 4 bits and with groups, and the version of the format that came with it."""
PLAIN = {"session.qdq_matmulnbits_accuracy_level": "1"}
"""Inputs of MatMulNBits stay float32."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight of shape [OUTPUTS, TERMS] as whole numbers of so many bits, with scales of [OUTPUTS, TERMS // group]."""

    bits: int
    group: int
    numbers: np.ndarray
    scales: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """What the numbers stand for, in float64."""
        return self.numbers * np.repeat(self.scales.astype(np.float64), self.group, axis=1)


def quantized(weight: np.ndarray, bits: int, group: int) -> Weight:
    """Rounded to the nearest number, each group by its largest value."""
    grouped = weight.reshape(len(weight), -1, group)
    scales = (np.abs(grouped).max(-1) / (2 ** (bits - 1) - 1)).astype(np.float32)
    return Weight(bits, group, np.rint(grouped / scales[..., None]).astype(np.int8).reshape(weight.shape), scales)


def restored(weight: Weight, rows: bool) -> tuple[list[onnx.TensorProto], onnx.NodeProto]:
    """The initializers and the DequantizeLinear of a weight that is stored by rows, [OUTPUTS, TERMS], or turned."""
    by_row = weight.group == TERMS
    numbers, scales = (weight.numbers, weight.scales) if rows else (weight.numbers.T, weight.scales.T)
    whole = np.ascontiguousarray(numbers)
    dtype, raw = (TensorProto.INT8, whole) if weight.bits == 8 else (TensorProto.INT4, pack(whole))
    where: dict[str, Any] = (
        {"axis": 0 if rows else 1} if by_row else {"axis": 1 if rows else 0, "block_size": weight.group}
    )
    tensors = [
        helper.make_tensor("numbers", dtype, numbers.shape, raw.tobytes(), raw=True),
        numpy_helper.from_array(np.ascontiguousarray(scales.reshape(-1) if by_row else scales), "scales"),
    ]
    return tensors, helper.make_node("DequantizeLinear", ["numbers", "scales"], ["weight"], **where)


def matmul(weight: Weight) -> onnx.ModelProto:
    tensors, weights = restored(weight, rows=False)
    return model([weights, helper.make_node("MatMul", ["x", "weight"], ["y"])], tensors, LEADING)


def matmul_turned(weight: Weight) -> onnx.ModelProto:
    tensors, weights = restored(weight, rows=True)
    turned = helper.make_node("Transpose", ["weight"], ["turned"], perm=[1, 0])
    return model([weights, turned, helper.make_node("MatMul", ["x", "turned"], ["y"])], tensors, LEADING)


def gemm(weight: Weight) -> onnx.ModelProto:
    tensors, weights = restored(weight, rows=False)
    return model([weights, helper.make_node("Gemm", ["x", "weight"], ["y"])], tensors, (int(np.prod(LEADING)),))


def gemm_turned(weight: Weight) -> onnx.ModelProto:
    tensors, weights = restored(weight, rows=True)
    product = helper.make_node("Gemm", ["x", "weight"], ["y"], transB=1)
    return model([weights, product], tensors, (int(np.prod(LEADING)),))


def model(nodes: list[onnx.NodeProto], tensors: list[onnx.TensorProto], leading: tuple[int, ...]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [*leading, TERMS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [*leading, OUTPUTS])
    graph = helper.make_graph(nodes, "product", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def difference(made: onnx.ModelProto, x: np.ndarray, weight: Weight, settings: Mapping[str, str]) -> float:
    """The largest one between what a session gives and the product of x and the weight's values in float64."""
    options = onnxruntime.SessionOptions()
    for key, value in settings.items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    (got,) = session.run(None, {"x": x.reshape(shape)})
    want = x.astype(np.float64).reshape(-1, TERMS) @ weight.values.T
    return float(np.abs(np.asarray(got).reshape(want.shape) - want).max())


Form = Callable[[Weight], onnx.ModelProto]

FORMS: Mapping[str, tuple[Form, Mapping[str, str]]] = {
    "`MatMul(x, DequantizeLinear)`": (matmul, {}),
    "`MatMul(x, Transpose(DequantizeLinear))`": (matmul_turned, {}),
    "`Gemm(x, DequantizeLinear)`": (gemm, {}),
    "`Gemm(x, DequantizeLinear, transB=1)`": (gemm_turned, {}),
    "the second with accuracy level 1": (matmul_turned, PLAIN),
}
WEIGHTS = {
    "8 bits by row": (8, TERMS),
    "8 bits by group": (8, GROUP),
    "4 bits by row": (4, TERMS),
    "4 bits by group": (4, GROUP),
}


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((*LEADING, TERMS)).astype(np.float32)
    weight = rng.standard_normal((OUTPUTS, TERMS)).astype(np.float32)
    held = [quantized(weight, bits, group) for bits, group in WEIGHTS.values()]
    print(f"outputs up to {np.abs(x @ weight.T).max():.0f}, ONNX Runtime {onnxruntime.__version__}\n")
    print(f"| form in the model | {' | '.join(WEIGHTS)} |\n|{'---|' * (1 + len(WEIGHTS))}")
    for name, (form, settings) in FORMS.items():
        cells = [f"{difference(form(each), x, each, settings):.0e}" for each in held]
        print(f"| {name} | {' | '.join(cells).replace('e-0', 'e-')} |")


if __name__ == "__main__":
    main()
