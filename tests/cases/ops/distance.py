"""Rows for exporter/lowering/lowerings/distance.py, and for distances that decompose."""

import torch

from tests.cases.ops import OpCase, f

aten = torch.ops.aten

INF = float("inf")
SINGLE = (torch.float32, torch.float64)
ORDERS = {"p": (0.0, 1.0, 2.0, 3.5, INF)}

CASES = (
    OpCase(aten.cdist.default, f(3, 4), f(5, 4), vary=ORDERS, dtypes=SINGLE, dynamic="n 4, m 4"),
    OpCase(aten.cdist.default, f(2, 3, 4), f(1, 5, 4), vary=ORDERS),
    OpCase(aten.cdist.default, f(3, 4), f(2, 5, 4), vary={"compute_mode": (None, 0, 1, 2)}),
    OpCase(aten.cdist.default, f(2, 30, 4), f(2, 27, 4), vary={"compute_mode": (None, 2)}, dynamic="b n 4, b m 4"),
    OpCase(aten.cdist.default, f(3, 0), f(5, 0), vary=ORDERS),
    OpCase(aten.cdist.default, f(0, 4), f(5, 4)),
    OpCase(aten._cdist_forward.default, f(3, 4), f(5, 4), 2.0, None),
    OpCase(aten._pdist_forward.default, f(5, 3), vary=ORDERS, dtypes=SINGLE, dynamic="n 3"),
    OpCase(aten.pdist.default, f(1, 3)),
    OpCase(aten.renorm.default, f(3, 4), vary={"p": (1, 2), "dim": (0, -1)}, maxnorm=1.0),
    OpCase(aten.dist.default, f(3, 4), f(4), vary={"p": (0, 1, 2, INF)}),
    OpCase(aten.pairwise_distance.default, f(3, 4), f(3, 4), vary={"p": (1.0, 2.0), "keepdim": (False, True)}),
    OpCase(aten.cosine_similarity.default, f(3, 4), f(3, 4), vary={"dim": (0, 1)}, dynamic="n m, n m"),
)
