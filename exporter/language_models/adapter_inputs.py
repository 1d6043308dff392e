"""LoRA as inputs: the two factors beside a weight are inputs with zeros by default, and a file has their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import torch

from fxport.diagnostics import Log
from fxport.exporter.language_models.adapters import switch
from fxport.exporter.language_models.few_bits import is_factor
from fxport.exporter.language_models.text_verdict import TextVerdict
from fxport.exporter.language_models.verdict import Verdict
from fxport.ort_runner.adapter_file import write_adapter


class AdapterInputs(ir.passes.InPlacePass):
    """Factors of LoRA become inputs of the graph, which a runtime may leave out: then they are 0, and add nothing.

    Given:   %y = MatMul(MatMul(%x, %layer.lora_A.weight), %layer.lora_B.weight), of constants
    Result:  the same, of inputs with the names of these constants
    """

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        for name in filter(is_factor, list(graph.initializers)):
            value = graph.initializers[name]
            assert value.const_value is not None
            self.values[name] = np.array(value.const_value.numpy())  # a copy: the weights may change
            zeros = ir.Tensor(np.zeros_like(self.values[name]), name=name)
            value.const_value, value.type = zeros, ir.TensorType(zeros.dtype)
            value.shape = ir.Shape(zeros.shape)
            graph.inputs.append(value)
        return ir.passes.PassResult(model, bool(self.values))

    def write(self, path: Path) -> Path:
        """Write the values that the inputs had, as ONNX Runtime and onnxruntime-genai load them."""
        write_adapter(path, self.values)
        return path


def compared_twice(
    compare: Callable[..., Verdict | TextVerdict], model: torch.nn.Module, path: Path, log: Log
) -> Verdict:
    """Compare a package with its adapter, and alone, with the model whose adapter takes part, or does not."""
    found = compare(log, adapter=path)
    switch(model, on=False)
    try:
        alone = compare(log)
    finally:
        switch(model, on=True)
    assert isinstance(found, Verdict)  # kinds of other verdicts take no adapter as an input
    assert isinstance(alone, Verdict)
    return Verdict(
        found.tokens + alone.tokens,
        max(found.error, alone.error),
        found.flips + alone.flips,
        found.ties + alone.ties,
        found.passed and alone.passed,
        found.filled and alone.filled,
    )
