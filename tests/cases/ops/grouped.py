"""Rows for exporter/lowering/lowerings/grouped.py."""

import torch
import transformers.integrations.moe  # noqa: F401  # registers the op

from tests.cases.ops import OpCase, f, v

grouped_mm = torch.ops.aten._grouped_mm.default
fallback = torch.ops.transformers.grouped_mm_fallback.default

BF16 = (torch.bfloat16,)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
TOL = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (3e-2, 3e-2)}
WHY = "on the CPU ONNX Runtime computes half-precision products in float32, PyTorch rounds in between"

CASES = (
    OpCase(fallback, f(8, 5), f(4, 5, 6), v([3, 3, 7, 8], torch.int32), dtypes=FLOATS, tol=TOL, why=WHY),
    OpCase(fallback, f(8, 5), f(4, 5, 6), v([0, 0, 0, 8], torch.int32), opsets=(18, 21, 26)),
    OpCase(fallback, f(8, 5), f(4, 5, 6), v([2, 4, 6, 8], torch.int32)),
    OpCase(fallback, f(8, 5), f(1, 5, 6), v([8], torch.int32)),
    OpCase(grouped_mm, f(8, 16), f(4, 16, 24), v([2, 2, 5, 8], torch.int32), dtypes=BF16, tol=TOL, why=WHY),
    OpCase(grouped_mm, f(4, 8, 16), f(4, 16, 24), dtypes=BF16, tol=TOL, why=WHY),
)
