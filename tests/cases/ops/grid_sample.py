"""Rows for exporter/lowering/lowerings/grid_sample.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, f, v

aten = torch.ops.aten

GRID, GRID_3D = f(2, 4, 7, 2, low=-1.5, high=1.5), f(2, 2, 4, 7, 3, low=-1.5, high=1.5)
NAN, INF = float("nan"), float("inf")
NOWHERE = v([[[[INF, 0.0], [0.0, -INF], [-INF, INF], [NAN, 0.3], [0.1, NAN], [0.2, 0.1]]]])
FAR = v([[[[1e8, 0.0], [0.0, -3e9], [1e30, 0.1], [-0.2, -1e19], [17.0, 0.1], [-40.0, 16.5]]]])
PADDINGS = {"padding_mode": (0, 1, 2), "align_corners": (False, True)}
ROUNDED = {
    "tol": {torch.float16: (1e-3, 5e-3), torch.bfloat16: (1.6e-2, 5e-2)},
    "why": "eager computes places and weights in half precision",
}

CASES = (
    OpCase(aten.grid_sampler_2d.default, f(2, 3, 5, 6), GRID, vary={"interpolation_mode": (0, 1, 2), **PADDINGS}),
    OpCase(
        aten.grid_sampler_2d.default,
        f(2, 3, 5, 6),
        GRID,
        0,
        0,
        False,
        dtypes=FLOATS,
        dynamic="n 3 h w, n i j 2",
        **ROUNDED,
    ),
    OpCase(aten.grid_sampler_2d.default, f(2, 3, 1, 1), GRID, 0, 2, True),
    OpCase(
        aten.grid_sampler_2d.default,
        f(1, 3, 5, 6),
        NOWHERE,
        vary={"interpolation_mode": (0, 1), "padding_mode": (1, 2), "align_corners": (False, True)},
    ),
    OpCase(aten.grid_sampler_2d.default, f(1, 3, 5, 6), NOWHERE, 1, 0, False),
    OpCase(
        aten.grid_sampler_2d.default,
        f(1, 3, 5, 6),
        FAR,
        vary={"interpolation_mode": (0, 1, 2), "padding_mode": (0, 1), "align_corners": (False, True)},
    ),
    OpCase(aten.grid_sampler_2d.default, f(1, 3, 2, 1), FAR, 2, 0, True),
    OpCase(aten.grid_sampler.default, f(2, 3, 5, 6), GRID, 2, 1, False, dynamic="n 3 h w, n i j 2"),
    OpCase(
        aten.grid_sampler_3d.default,
        f(2, 3, 4, 5, 6),
        GRID_3D,
        vary={"interpolation_mode": (0, 1), **PADDINGS},
        dtypes=(torch.float32, torch.float64),
        dynamic="n 3 d h w, n i j k 3",
        since=20,
        opsets=(20, 26),
    ),
    OpCase(aten.grid_sampler.default, f(2, 3, 4, 5, 6), GRID_3D, 0, 1, False, since=20, opsets=(20, 26)),
)
