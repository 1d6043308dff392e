"""Rows for exporter/lowering/lowerings/attention.py."""

import math
from typing import Any

import torch

from tests.cases.ops import F32, OpCase, b, f, v

aten = torch.ops.aten

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
HALF = {torch.float16: (1e-2, 4e-3), torch.bfloat16: (2e-2, 1e-2)}
WHY = "PyTorch computes half-precision attention in float32, ONNX Runtime rounds the scores"

Q, K, V = f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 5)
DYNAMIC = "b 3 l 8, b 3 s 8, b 3 s 5"
sdpa = aten.scaled_dot_product_attention.default

ROWS = [[True, False, True, True, False, True], [False] * 6, [True] * 6, [False, True, False, False, False, False]]
LOWEST = torch.finfo(torch.float32).min


def biases(closed: float) -> list[list[float]]:
    """ROWS as numbers to add: `closed` where False."""
    return [[0.5 if kept else closed for kept in row] for row in ROWS]


BIASES = biases(-math.inf)
SQUARE = (f(2, 3, 4, 8), f(2, 3, 6, 8), f(2, 3, 6, 8))
CAUSAL = {"vary": {"is_causal": (False, True)}}


def _biased(*arguments: Any) -> torch.Tensor:
    """The general op on the first four arguments of a backend's."""
    return sdpa(*arguments[:4])


GENERAL: dict[str, Any] = {"results": 1, "reference": sdpa}
BIASED: dict[str, Any] = {"results": 1, "reference": _biased}

CASES = (
    OpCase(sdpa, Q, K, V, vary={"is_causal": (False, True), "scale": (None, 0.25)}, dtypes=FLOATS, dynamic=DYNAMIC,
           tol=HALF, why=WHY),
    OpCase(sdpa, f(2, 3, 6, 8), f(2, 3, 4, 8), f(2, 3, 4, 8), is_causal=True, dynamic="b 3 l 8, b 3 s 8, b 3 s 8"),
    # Masks: every way to broadcast, and rows that are closed everywhere.
    OpCase(sdpa, Q, K, V, v(ROWS, torch.bool), dtypes=FLOATS, tol=HALF, why=WHY),
    OpCase(sdpa, Q, K, V, v(BIASES), dtypes=FLOATS, tol=HALF, why=WHY),
    OpCase(sdpa, Q, K, V, v(biases(LOWEST)), dtypes=F32),
    OpCase(sdpa, Q, K, V, v(biases(-1e4)), dtypes=FLOATS[:2]),  # -1e4 swallows scores in float16
    OpCase(sdpa, Q, K, V, b(4, 6), dynamic=f"{DYNAMIC}, l s"),
    OpCase(sdpa, Q, K, V, b(1, 6), dynamic=f"{DYNAMIC}, 1 s"),
    OpCase(sdpa, Q, K, V, b(4, 1)),
    OpCase(sdpa, Q, K, V, b(3, 4, 6)),
    OpCase(sdpa, Q, K, V, b(2, 1, 1, 6), dynamic=f"{DYNAMIC}, b 1 1 s"),
    OpCase(sdpa, Q, K, V, b(2, 1, 4, 6), dynamic=f"{DYNAMIC}, b 1 l s"),
    OpCase(sdpa, Q, K, V, b(1, 3, 4, 6)),
    OpCase(sdpa, Q, K, V, b(2, 3, 4, 6)),
    OpCase(sdpa, Q, K, V, f(2, 1, 1, 6), dtypes=FLOATS, dynamic=f"{DYNAMIC}, b 1 1 s", tol=HALF, why=WHY),
    OpCase(sdpa, Q, K, V, vary={"scale": (0.0, -1.0)}),
    OpCase(sdpa, Q, K, V, f(2, 3, 4, 6), scale=0.3, dynamic=f"{DYNAMIC}, b 3 l s"),
    # Fewer heads of keys than of queries.
    OpCase(sdpa, f(2, 6, 4, 8), K, V, enable_gqa=True, vary={"is_causal": (False, True)}, dtypes=FLOATS, tol=HALF,
           why=WHY, dynamic="b 6 l 8, b 3 s 8, b 3 s 5"),
    OpCase(sdpa, f(2, 6, 4, 8), f(2, 1, 6, 8), f(2, 1, 6, 5), b(2, 1, 4, 6), enable_gqa=True),
    OpCase(sdpa, f(2, 1, 4, 8), f(2, 1, 6, 8), f(2, 1, 6, 5), enable_gqa=True),
    # Other ranks, and sizes of one or none.
    OpCase(sdpa, f(4, 8), f(6, 8), f(6, 5), is_causal=True),
    OpCase(sdpa, f(3, 4, 8), f(3, 6, 8), f(3, 6, 5), dtypes=FLOATS, dynamic="h l 8, h s 8, h s 5", tol=HALF, why=WHY),
    OpCase(sdpa, f(3, 4, 8), f(3, 6, 8), f(3, 6, 5), v(ROWS, torch.bool)),
    OpCase(sdpa, f(3, 4, 8), f(3, 6, 8), f(3, 6, 5), v(BIASES)),
    OpCase(sdpa, f(2, 2, 3, 4, 8), f(2, 2, 3, 6, 8), f(2, 2, 3, 6, 5), b(2, 1, 1, 4, 6)),
    OpCase(sdpa, f(2, 3, 4, 8), f(1, 3, 6, 8), f(1, 3, 6, 5)),
    OpCase(sdpa, f(2, 3, 1, 8), K, V, is_causal=True),
    OpCase(sdpa, f(2, 3, 0, 8), K, V),
    OpCase(sdpa, Q, f(2, 3, 0, 8), f(2, 3, 0, 5)),
    OpCase(sdpa, Q, f(2, 3, 0, 8), f(2, 3, 0, 5), b(4, 0)),
    OpCase(sdpa, Q, K, V, dropout_p=0.5, compare="shape"),
    # What the backends of PyTorch compute, most of which have no kernel on the CPU: the general op is the reference.
    OpCase(aten._scaled_dot_product_flash_attention_for_cpu.default, *SQUARE, **GENERAL, **CAUSAL),
    OpCase(aten._scaled_dot_product_flash_attention_for_cpu.default, *SQUARE, **GENERAL, attn_mask=v(BIASES)),
    OpCase(aten._scaled_dot_product_flash_attention.default, *SQUARE, **GENERAL, **CAUSAL),
    OpCase(aten._scaled_dot_product_efficient_attention.default, *SQUARE, v(BIASES), False, 0.0, **BIASED),
    OpCase(aten._scaled_dot_product_cudnn_attention.default, *SQUARE, v(BIASES), False, 0.0, **BIASED),
    OpCase(aten._scaled_dot_product_fused_attention_overrideable.default, *SQUARE, v(BIASES), **BIASED),
)  # fmt: skip
