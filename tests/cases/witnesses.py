"""Models that another runtime cannot run, or runs otherwise, though ONNX Runtime and PyTorch agree: by what it lacks.

Seen with onnx 1.23.2, OpenVINO 2026.4.1 and onnxruntime-web 1.30.0.
"""

from __future__ import annotations

from collections.abc import Mapping

DIFFERENT: Mapping[tuple[str, str], str] = {
    ("calls-encoder_in_bfloat16", "openvino"): "it gives NaN at another size",
    ("calls-encoder_in_bfloat16", "web"): "it has no tensors of bfloat16",
    ("modules-double_precision", "openvino"): "it does not end",
    ("modules-ensemble", "openvino"): "its MatMul takes no operands of different ranks here",
    **dict.fromkeys(
        (
            ("spectra-fourier_layer", "openvino"),
            ("spectra-fourier_operator_of_lines", "openvino"),
            ("spectra-fourier_operator_of_planes", "openvino"),
        ),
        "its DFT takes no float64, is along axis 1 whatever the file says, and gives real operands an axis too many",
    ),
    ("transformers-t5", "openvino"): "it gives something else from run to run, some of it NaN",
}
"""(row of the model suite, runtime) → what is wrong with the runtime."""
