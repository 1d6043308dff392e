"""Rows for exporter/lowering/lowerings/quant_choice.py."""

from __future__ import annotations

import torch
import torch.ao.quantization.fx._decomposed  # registers the ops

from tests.cases.ops import OpCase, f, v

q = torch.ops.quantized_decomposed

HALF = {
    "dtypes": (torch.float32, torch.float16),
    "tol": {torch.float16: (1e-3, 1e-6)},
    "why": "PyTorch divides halves, ONNX Runtime's CPU kernels floats",
}
EPS = torch.finfo(torch.float32).eps
POSITIVE, NEGATIVE, ZEROS = v([[0.5, 2.0, 1.25]]), v([-3.0, -0.25]), v([0.0, 0.0])


def _as_declared(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch gives float32, but declares float64 and int64, which is what a graph has."""
    scales, zeros = q.choose_qparams_per_token(x, dtype)
    return scales.double(), zeros.long()


CASES = (
    *(
        OpCase(target, x, low, high, EPS, dtype)
        for target in (q.choose_qparams.tensor, q.choose_qparams_symmetric.tensor)
        for x in (POSITIVE, NEGATIVE, ZEROS)
        for low, high, dtype in ((-128, 127, torch.int8), (0, 255, torch.uint8))
    ),
    OpCase(q.choose_qparams.tensor, f(3, 4), -128, 127, EPS, torch.int8, **HALF, dynamic="n 4"),
    OpCase(q.choose_qparams_symmetric.tensor, f(3, 4), -127, 127, EPS, torch.int8, **HALF, dynamic="n 4"),
    OpCase(q.choose_qparams_per_token.default, f(2, 3, 4), torch.int8, reference=_as_declared, dynamic="n 3 4"),
    OpCase(q.choose_qparams_per_token.default, v([[0.0, 0.0], [1.0, -2.0]]), torch.int8, reference=_as_declared),
    OpCase(q.choose_qparams_per_token_asymmetric.default, f(2, 3, 4), torch.int8, dynamic="n 3 4"),
    *(OpCase(q.choose_qparams_per_token_asymmetric.default, x, torch.int8) for x in (POSITIVE, NEGATIVE, ZEROS)),
    OpCase(q._choose_qparams_per_token_asymmetric_impl.default, f(3, 4), torch.int8),
)
