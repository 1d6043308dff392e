"""Models that another runtime cannot run, or runs otherwise, though ONNX Runtime and PyTorch agree: by what it lacks.

Seen with onnx 1.23.1, OpenVINO 2026.4.1 and onnxruntime-web 1.30.0.
"""

from __future__ import annotations

from collections.abc import Mapping

DIFFERENT: Mapping[tuple[str, str], str] = {
    ("calls-encoder_in_bfloat16", "openvino"): "it rounds otherwise: 59 times the error that is allowed",
    ("calls-encoder_in_bfloat16", "web"): "it has no tensors of bfloat16",
    ("modules-rnn", "reference"): "its RNN has no Relu",
    ("modules-double_precision", "openvino"): "it does not end",
    ("modules-ensemble", "openvino"): "its MatMul takes no operands of different ranks here",
    ("research-points", "reference"): "its GatherElements takes no data of another size than the indices",
    ("spectra-fourier_layer", "openvino"): "its DFT takes no float64",
    ("transformers-bert", "reference"): "its GatherElements takes no data of another size than the indices",
    ("transformers-roberta", "reference"): "its GatherElements takes no data of another size than the indices",
}
"""(row of the model suite, runtime) → what is wrong with the runtime."""
