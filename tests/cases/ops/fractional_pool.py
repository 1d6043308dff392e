"""Rows for exporter/lowering/lowerings/fractional_pool.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

DRAWN, DRAWN_3D = f(2, 3, 2, low=0.0, high=1.0), f(2, 3, 3, low=0.0, high=1.0)
WIDE = (torch.float32, torch.float64)

CASES = (
    OpCase(
        aten.fractional_max_pool2d.default,
        f(2, 3, 9, 11),
        [2, 3],
        vary={"output_size": ([4, 5], [1, 3], [8, 9])},
        random_samples=DRAWN,
        dtypes=WIDE,
        dynamic="n 3 h w, n",
    ),
    OpCase(aten.fractional_max_pool2d.default, f(3, 9, 11), [2, 2], [4, 5], DRAWN),  # more samples than pictures
    OpCase(
        aten.fractional_max_pool2d.default,
        v([[[[1.0, 2, 2, 1], [2, 2, 1, 2], [0, 2, 2, 2]]]]),  # the first of equals
        [2, 2],
        [2, 2],
        f(1, 1, 2, low=0.0, high=1.0),
    ),
    # PyTorch's own shape rule makes constants of the sizes: only the 2-D form can be dynamic.
    OpCase(aten.fractional_max_pool3d.default, f(2, 3, 5, 6, 7), [2, 2, 3], [3, 1, 4], DRAWN_3D),
    OpCase(aten.fractional_max_pool3d.default, f(3, 5, 6, 7), [2, 2, 3], [3, 1, 4], DRAWN_3D),
)
