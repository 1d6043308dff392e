"""Rows for exporter/lowering/lowerings/matmul.py."""

import torch

from tests.cases.ops import F32, INTS, OpCase, f, i

aten = torch.ops.aten

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
PRODUCTS = (*FLOATS, *INTS)

# Sums of half-precision products differ by the order of the terms.
HALF = {torch.float16: (1e-2, 1e-2), torch.bfloat16: (3e-2, 3e-2)}
WHY = "on the CPU ONNX Runtime computes half-precision products in float32, PyTorch rounds in between"

BYTES = i(32, 32, low=-128, high=128, dtype=torch.int8)

CASES = (
    OpCase(aten.bilinear.default, f(2, 3), f(2, 4), f(5, 3, 4), f(5), dtypes=FLOATS[:2], dynamic="n 3, n 4, 5 3 4, 5"),
    OpCase(aten.bilinear.default, f(2, 6, 3), f(2, 6, 4), f(5, 3, 4), dynamic="n m 3, n m 4, 5 3 4"),
    OpCase(aten.bilinear.default, f(3), f(4), f(5, 3, 4), f(5)),
    OpCase(aten.mm.default, f(2, 3), f(3, 4), dtypes=PRODUCTS, dynamic="n k, k m"),
    OpCase(aten.mm.default, f(2, 0), f(0, 4)),
    OpCase(aten.mm.default, f(0, 3), f(3, 4)),
    OpCase(aten.bmm.default, f(5, 2, 3), f(5, 3, 4), dtypes=PRODUCTS, dynamic="b n 3, b 3 m"),
    OpCase(aten.bmm.default, f(5, 2, 0), f(5, 0, 4)),
    OpCase(aten.mv.default, f(4, 3), f(3), dtypes=PRODUCTS, dynamic="n k, k"),
    OpCase(aten.dot.default, f(3), f(3), dtypes=PRODUCTS, dynamic="n, n"),
    OpCase(aten.dot.default, f(0), f(0)),
    OpCase(aten.matmul.default, f(3), f(3)),
    OpCase(aten.matmul.default, f(3), f(3, 4)),
    OpCase(aten.matmul.default, f(2, 3), f(3)),
    OpCase(aten.matmul.default, f(2, 3), f(3, 4), dtypes=PRODUCTS),
    OpCase(aten.matmul.default, f(3), f(5, 3, 4), dynamic="3, b 3 m"),
    OpCase(aten.matmul.default, f(5, 2, 3), f(3), dynamic="b n 3"),
    OpCase(aten.matmul.default, f(5, 2, 3), f(3, 4), dynamic="b n 3"),
    OpCase(aten.matmul.default, f(2, 3), f(5, 3, 4), dynamic="n 3, b 3 4"),
    OpCase(aten.matmul.default, f(6, 1, 2, 3), f(5, 3, 4), dtypes=PRODUCTS, dynamic="a 1 n 3, b 3 m"),
    OpCase(aten.linear.default, f(2, 3), f(4, 3), f(4), dtypes=PRODUCTS, dynamic="n 3"),
    OpCase(aten.linear.default, f(2, 3), f(4, 3)),
    OpCase(aten.linear.default, f(0, 3), f(4, 3), f(4)),
    OpCase(aten.linear.default, f(2, 0), f(4, 0), f(4)),
    OpCase(aten.linear.default, f(3), f(4, 3), f(4), dtypes=PRODUCTS),
    OpCase(aten.linear.default, f(5, 2, 3), f(4, 3), f(4), dtypes=PRODUCTS, dynamic="b n 3"),
    OpCase(aten.linear.default, f(5, 2, 3), f(4, 3), dynamic="b n 3"),
    OpCase(aten.linear.default, f(5, 2, 3), f(3)),
    OpCase(
        aten.addmm.default, f(4), f(2, 3), f(3, 4), dtypes=PRODUCTS, dynamic="4, n 3, 3 4", tol=HALF, why=WHY,
        vary={"beta": (1, 2), "alpha": (1, 3)},
    ),
    OpCase(aten.addmm.default, f(2, 4), f(2, 3), f(3, 4), vary={"beta": (0, 0.1), "alpha": (0.7, 2)}, dtypes=FLOATS),
    OpCase(aten.addmm.default, f(2, 1), f(2, 3), f(3, 4), beta=0.5),
    OpCase(aten.addmm.default, f(1, 4), f(2, 3), f(3, 4), beta=0.5),
    OpCase(aten.addmm.default, f(), f(2, 3), f(3, 4), alpha=2),
    OpCase(aten.addmm.default, f(4), f(2, 0), f(0, 4), beta=2),
    OpCase(aten.addmm.default, i(4), i(2, 3), i(3, 4), beta=0, alpha=2.7),
    OpCase(
        aten.baddbmm.default, f(5, 2, 4), f(5, 2, 3), f(5, 3, 4), dtypes=PRODUCTS, dynamic="b n 4, b n 3, b 3 4",
        vary={"beta": (0, 1, 2), "alpha": (1, 3)}, tol=HALF, why=WHY,
    ),
    OpCase(aten.baddbmm.default, f(4), f(5, 2, 3), f(5, 3, 4), beta=0.3, alpha=0.7),
    OpCase(
        aten.addbmm.default, f(2, 4), f(5, 2, 3), f(5, 3, 4), dtypes=PRODUCTS, dynamic="n 4, b n 3, b 3 4",
        vary={"beta": (0, 1, 2), "alpha": (1, 3)}, tol=HALF, why=WHY,
    ),
    OpCase(aten.addbmm.default, f(4), f(5, 2, 3), f(5, 3, 4), dtypes=F32),
    OpCase(
        aten.addmv.default, f(2), f(2, 3), f(3), dtypes=PRODUCTS, dynamic="n, n 3",
        vary={"beta": (0, 1, 2), "alpha": (1, 3)}, tol=HALF, why=WHY,
    ),
    OpCase(aten._int_mm.default, BYTES, BYTES),
)  # fmt: skip
