"""The operators of `models/custom.py` in ONNX: `plugin = ["models.custom_onnx"]` in the manifest."""

import torch

import models.custom  # noqa: F401  # registers the operators


def leaky(op, x, slope):
    """sample::leaky(Tensor x, float slope) -> Tensor"""
    return op.LeakyRelu(x, alpha=slope)


LOWERINGS = {torch.ops.sample.leaky.default: leaky}
