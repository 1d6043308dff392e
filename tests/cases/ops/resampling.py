"""Rows for fx_passes/decompositions/resampling.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, f

aten = torch.ops.aten

BOTH = {"align_corners": (False, True)}
# Of float32 values here, of values rounded on the way in PyTorch.
ROUNDED = {torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2)}
WHY = "eager adds up shares that are rounded to half precision; here they stay float32"

SIZES = ([8, 3], [4, 14], [5, 7])
"""Of what came out of pictures of 5 × 7."""

CASES = (
    *(
        OpCase(target, f(2, 3, 9), [9], [2, 3, 5])
        for target in (aten.upsample_nearest1d_backward.default, aten._upsample_nearest_exact1d_backward.default)
    ),
    *(
        OpCase(target, f(2, 3, *size), size, [2, 3, 5, 7])
        for target in (aten.upsample_nearest2d_backward.default, aten._upsample_nearest_exact2d_backward.default)
        for size in SIZES
    ),
    OpCase(aten.upsample_nearest2d_backward.default, f(2, 3, 8, 4), [8, 4], [2, 3, 5, 7], 1.7, 0.6),
    OpCase(
        aten.upsample_nearest2d_backward.default,
        f(2, 3, 10, 14),
        [10, 14],
        [2, 3, 5, 7],
        dtypes=FLOATS,
        tol=ROUNDED,
        why=WHY,
    ),
    *(
        OpCase(target, f(1, 2, 6, 6, 2), [6, 6, 2], [1, 2, 4, 3, 5])
        for target in (aten.upsample_nearest3d_backward.default, aten._upsample_nearest_exact3d_backward.default)
    ),
    OpCase(aten.upsample_linear1d_backward.default, f(2, 3, 9), [9], [2, 3, 5], vary=BOTH),
    *(
        OpCase(target, f(2, 3, *size), size, [2, 3, 5, 7], vary=BOTH)
        for target in (
            aten.upsample_bilinear2d_backward.default,
            aten.upsample_bicubic2d_backward.default,
            aten._upsample_bilinear2d_aa_backward.default,
            aten._upsample_bicubic2d_aa_backward.default,
        )
        for size in SIZES
    ),
    OpCase(aten.upsample_bilinear2d_backward.default, f(2, 3, 8, 4), [8, 4], [2, 3, 5, 7], False, 1.7, 0.6),
    OpCase(aten.upsample_trilinear3d_backward.default, f(1, 2, 6, 6, 2), [6, 6, 2], [1, 2, 4, 3, 5], vary=BOTH),
    OpCase(aten._adaptive_avg_pool2d_backward.default, f(2, 3, 3, 4), f(2, 3, 5, 7), dynamic="n, n"),
    OpCase(aten._adaptive_avg_pool2d_backward.default, f(3, 3, 4), f(3, 5, 7)),
    OpCase(aten._adaptive_avg_pool3d_backward.default, f(2, 2, 3, 4, 2), f(2, 2, 5, 4, 3)),
)
