"""Rows for exporter/lowering/lowerings/pool_backward.py."""

import torch

from tests.cases.ops import OpCase, f, i

aten = torch.ops.aten

BOTH = (False, True)
AVERAGES = {"ceil_mode": BOTH, "count_include_pad": BOTH, "divisor_override": (None, 5)}
# Windows of 3 with a stride of 2 over 7 × 9 with a padding of 1.
BINS, PLACES, PLANE = f(2, 3, 4, 5), i(2, 3, 4, 5, high=63), f(2, 3, 7, 9)
WINDOWS = ([3, 3], [2, 2], [1, 1], [1, 1], False)

CASES = (
    OpCase(
        aten.max_pool2d_with_indices_backward.default,
        BINS,
        PLANE,
        *WINDOWS,
        PLACES,
        dtypes=(torch.float32, torch.float16),
        dynamic="n, n, n",
    ),
    OpCase(aten.max_pool2d_with_indices_backward.default, f(3, 4, 5), f(3, 7, 9), *WINDOWS, i(3, 4, 5, high=63)),
    OpCase(
        aten.max_pool3d_with_indices_backward.default,
        f(2, 3, 2, 2, 3),
        f(2, 3, 4, 5, 6),
        [2] * 3,
        [2] * 3,
        [0] * 3,
        [1] * 3,
        False,
        i(2, 3, 2, 2, 3, high=120),
        dynamic="n, n, n",
    ),
    OpCase(aten.avg_pool2d_backward.default, BINS, PLANE, [3, 3], [2, 2], [1, 1], vary=AVERAGES, dynamic="n, n"),
    OpCase(aten.avg_pool2d_backward.default, f(3, 4, 4), f(3, 8, 9), [2, 2], [], [0, 0], False, True, None),
    OpCase(aten.avg_pool2d_backward.default, f(2, 3, 4, 5), f(2, 3, 8, 9), [2, 2], [2, 2], [0, 0], True, True, None),
    OpCase(
        aten.avg_pool3d_backward.default,
        f(2, 3, 2, 3, 3),
        f(2, 3, 4, 5, 6),
        [2, 3, 2],
        [2, 2, 3],
        [0, 1, 1],
        vary={"count_include_pad": BOTH},
        ceil_mode=False,
        divisor_override=None,
        dynamic="n, n",
    ),
    OpCase(
        aten.adaptive_max_pool2d_backward.default, f(2, 3, 3, 4), f(2, 3, 5, 7), i(2, 3, 3, 4, high=35), dynamic="n,n,n"
    ),
    OpCase(aten.adaptive_max_pool3d_backward.default, f(2, 2, 3, 2), f(2, 5, 4, 3), i(2, 2, 3, 2, high=60)),
    OpCase(aten.fractional_max_pool2d_backward.default, f(2, 3, 3, 4), PLANE, [2, 2], [3, 4], i(2, 3, 3, 4, high=63)),
    OpCase(
        aten.fractional_max_pool3d_backward.default,
        f(2, 2, 3, 2),
        f(2, 5, 4, 3),
        [2, 2, 2],
        [2, 3, 2],
        i(2, 2, 3, 2, high=60),
    ),
)
