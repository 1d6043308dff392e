"""Rows for exporter/lowering/lowerings/vector_norm.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, b, f, i, v

aten = torch.ops.aten

NAN, INF = float("nan"), float("inf")
ORDERS = (0, 1, 2, 3, -1, 0.5, INF, -INF)

CASES = (
    OpCase(aten.linalg_vector_norm.default, f(2, 3), vary={"ord": ORDERS}, dtypes=FLOATS, dynamic="n m"),
    OpCase(
        aten.linalg_vector_norm.default,
        f(2, 3, 4),
        vary={"ord": (0, 1, 2, 3, INF), "dim": ([1], [0, -1]), "keepdim": (False, True)},
        dynamic="n 3 m",
    ),
    OpCase(
        aten.linalg_vector_norm.default, v([[1.0, NAN], [INF, 0.0]]), vary={"ord": (0, 1, 2, INF, -INF), "dim": ([1],)}
    ),
    OpCase(aten.linalg_vector_norm.default, f(2, 3), vary={"dtype": (None, torch.float64)}),
    OpCase(aten.linalg_vector_norm.default, f(2, 0), vary={"ord": (0, 1, 2, 3), "dim": ([1],)}),
    OpCase(aten.linalg_vector_norm.default, f(), vary={"ord": (0, 2, INF)}, dtypes=FLOATS),
    OpCase(aten.norm.Scalar, f(2, 3), vary={"p": (1, 2, 3)}),
    OpCase(aten.norm.ScalarOpt_dim, f(2, 3), 2, [1], vary={"keepdim": (False, True)}),
    OpCase(aten.norm.ScalarOpt_dim_dtype, f(2, 3), 1, [1], True, dtype=torch.float64),
    OpCase(aten.norm.ScalarOpt_dtype, f(2, 3), 2, dtype=torch.float64),
    OpCase(
        aten.logsumexp.default, f(2, 3, 4), [0, -1], vary={"keepdim": (False, True)}, dtypes=FLOATS, dynamic="n 3 m"
    ),
    OpCase(aten.logsumexp.default, v([[1000.0, 999.0], [-INF, -INF], [INF, 1.0], [1.0, NAN], [INF, -INF]]), [1]),
    OpCase(aten.logsumexp.default, v([[1.0, INF], [NAN, 1.0]]), [0, 1]),
    OpCase(aten.logsumexp.default, i(2, 3), [1]),
    OpCase(aten.logsumexp.default, b(2, 3), [1]),
    OpCase(aten.logsumexp.default, f(2, 0), [1]),
    OpCase(aten.logsumexp.default, f(), [0]),
)
