"""QR factorization by Householder reflections, and products with the reflections."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DOUBLES = (torch.float32, torch.float64)
MODES = {"mode": ("reduced", "complete", "r")}
SPECIAL = [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [3.0, 4.0]], [[-2.0, 1.0], [0.0, -3.0]]]

CASES = (
    OpCase(aten.linalg_qr.default, f(2, 4, 4), dtypes=DOUBLES, vary=MODES, dynamic="b 4 4"),
    OpCase(aten.linalg_qr.default, f(5, 3), dtypes=DOUBLES, vary=MODES),
    OpCase(aten.linalg_qr.default, f(2, 3, 5), dtypes=DOUBLES, vary=MODES, dynamic="b 3 5"),
    OpCase(aten.linalg_qr.default, f(6, 2), dynamic="m 2"),
    OpCase(aten.linalg_qr.default, f(1, 1)),
    OpCase(aten.linalg_qr.default, f(0, 3), vary=MODES),
    OpCase(aten.linalg_qr.default, f(3, 0), vary=MODES),
    OpCase(aten.linalg_qr.default, f(0, 3, 2)),
    OpCase(aten.linalg_qr.default, v(SPECIAL)),
    OpCase(aten.geqrf.default, f(2, 5, 3), dtypes=DOUBLES),
    OpCase(aten.geqrf.default, f(3, 5)),
    OpCase(aten.linalg_householder_product.default, f(2, 5, 3), f(2, 3), dtypes=DOUBLES, dynamic="b m 3, b 3"),
    OpCase(aten.linalg_householder_product.default, f(5, 4), f(2)),
    OpCase(aten.linalg_householder_product.default, f(3, 3), f(0)),
    OpCase(aten.ormqr.default, f(2, 5, 3), f(2, 3), f(2, 5, 4), dtypes=DOUBLES, vary={"transpose": (False, True)}),
    OpCase(aten.ormqr.default, f(5, 3), f(3), f(4, 5), vary={"left": (False,), "transpose": (False, True)}),
    OpCase(aten.ormqr.default, f(5, 5), f(5), f(5, 4), dynamic="5 5, 5, 5 k"),
)
