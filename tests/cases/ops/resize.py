"""Rows for exporter/lowering/lowerings/resize.py."""

import torch

from tests.cases.ops import FLOATS, OpCase, f, i, v

aten = torch.ops.aten

COPIES = (*FLOATS, torch.uint8)
BOTH = (False, True)
LINE, IMAGE, VOLUME = f(2, 3, 9), f(2, 3, 6, 7), f(1, 2, 3, 4, 5)
SIZES = ([12, 14], [9, 10], [3, 20], [6, 7], [1, 1])
FACTORS = ([2.0, 2.0], [1.5, 3.0], [0.5, 0.7], [1.7, 1.1], [1.05, 2.05])
FACTORS_3D = ([2.0, 2.0, 2.0], [1.5, 2.0, 0.7])
ONE_OF_EACH = {"scales_h": (None, 2.0), "scales_w": (None, 1.5)}

PLACES = {
    "tol": {torch.float32: (1.3e-6, 2e-5), torch.float16: (1e-3, 3e-3), torch.bfloat16: (1.6e-2, 3e-2)},
    "why": "eager has places in float32 and weights in the dtype of the image, rounded at other steps",
}
BYTES = i(2, 3, 6, 7, high=256, dtype=torch.uint8)
OF_BYTES = {"output_size": SIZES[:-1], "align_corners": BOTH}  # to one pixel eager raises

nearest1d, nearest2d, nearest3d = aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d
exact1d, exact2d = aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d
exact3d = aten._upsample_nearest_exact3d
linear, bilinear, trilinear = aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d
bicubic, bilinear_aa = aten.upsample_bicubic2d, aten._upsample_bilinear2d_aa
bicubic_aa = aten._upsample_bicubic2d_aa

CASES = (
    OpCase(nearest1d.vec, LINE, vary={"output_size": ([18], [13], [9], [4])}, scale_factors=None, dynamic="n 3 l"),
    OpCase(nearest1d.vec, LINE, None, vary={"scale_factors": ([2.0], [1.7], [0.6], [1.05])}, dynamic="n 3 l"),
    OpCase(nearest1d.default, LINE, [18], vary={"scales": (None, 2.0, 2.1)}, dynamic="n"),
    OpCase(nearest2d.vec, IMAGE, vary={"output_size": SIZES}, scale_factors=None, dynamic="n 3 h w"),
    OpCase(nearest2d.vec, IMAGE, vary={"output_size": ([12, 14], [9, 10])}, scale_factors=None, dtypes=COPIES),
    OpCase(nearest2d.vec, IMAGE, None, vary={"scale_factors": FACTORS}, dynamic="n 3 h w"),
    OpCase(nearest2d.vec, f(1, 1, 64, 41), [300, 533], None),
    OpCase(nearest2d.default, IMAGE, [12, 10], vary=ONE_OF_EACH, dynamic="n"),
    OpCase(
        nearest3d.vec, VOLUME, vary={"output_size": ([6, 8, 5], [4, 9, 7])}, scale_factors=None, dynamic="n 2 d h w"
    ),
    OpCase(nearest3d.vec, VOLUME, None, vary={"scale_factors": FACTORS_3D}, dynamic="n 2 d h w"),
    OpCase(nearest3d.default, VOLUME, [6, 6, 5], None, 1.5),
    OpCase(exact1d.vec, LINE, vary={"output_size": ([18], [13], [9], [4])}, scale_factors=None, dynamic="n 3 l"),
    OpCase(exact1d.default, LINE, [18], vary={"scales": (None, 2.0, 2.1)}),
    OpCase(exact2d.vec, IMAGE, vary={"output_size": SIZES}, scale_factors=None, dynamic="n 3 h w"),
    OpCase(exact2d.vec, IMAGE, None, vary={"scale_factors": FACTORS}, dynamic="n 3 h w"),
    OpCase(exact2d.default, IMAGE, [12, 10], vary=ONE_OF_EACH, dtypes=COPIES),
    OpCase(exact3d.vec, VOLUME, None, vary={"scale_factors": FACTORS_3D}, dynamic="n"),
    OpCase(exact3d.default, VOLUME, [6, 6, 5], None, 1.5),
    OpCase(linear.vec, LINE, vary={"output_size": ([18], [4])}, align_corners=False, scale_factors=None, **PLACES),
    OpCase(linear.vec, LINE, None, True, vary={"scale_factors": ([2.0], [1.7], [0.6])}, dynamic="n 3 l", **PLACES),
    OpCase(linear.default, LINE, [13], False, vary={"scales": (None, 1.45)}, dtypes=FLOATS, dynamic="n", **PLACES),
    OpCase(
        bilinear.vec,
        IMAGE,
        vary={"output_size": SIZES, "align_corners": BOTH},
        scale_factors=None,
        dynamic="n 3 h w",
        **PLACES,
    ),
    OpCase(
        bilinear.vec, IMAGE, None, vary={"align_corners": BOTH, "scale_factors": FACTORS}, dynamic="n 3 h w", **PLACES
    ),
    OpCase(bilinear.vec, IMAGE, [9, 10], vary={"align_corners": BOTH}, scale_factors=None, dtypes=FLOATS, **PLACES),
    OpCase(bilinear.vec, BYTES, vary=OF_BYTES, scale_factors=None, dynamic="n 3 h w"),
    OpCase(bilinear.vec, BYTES, None, False, vary={"scale_factors": FACTORS}, dynamic="n 3 h w"),
    OpCase(bilinear.default, IMAGE, [12, 10], False, vary=ONE_OF_EACH, dynamic="n", **PLACES),
    OpCase(
        trilinear.vec,
        VOLUME,
        vary={"output_size": ([6, 8, 5], [4, 9, 1]), "align_corners": BOTH},
        scale_factors=None,
        dynamic="n 2 d h w",
        **PLACES,
    ),
    OpCase(
        linear.default,  # no place but the two beside it has to be finite
        v([[[0.0, 1.0, float("inf"), 3.0, 4.0, 5.0, float("nan"), 7.0]]]),
        vary={"output_size": ([1], [5], [16]), "align_corners": BOTH},
        dtypes=(torch.float64,),
        **PLACES,
    ),
    OpCase(trilinear.vec, VOLUME, None, False, vary={"scale_factors": FACTORS_3D}, dynamic="n 2 d h w", **PLACES),
    OpCase(trilinear.default, VOLUME, [6, 6, 5], False, None, 1.5, None, dtypes=FLOATS, **PLACES),
    OpCase(
        bicubic.vec,
        IMAGE,
        vary={"output_size": SIZES, "align_corners": BOTH},
        scale_factors=None,
        dynamic="n 3 h w",
        **PLACES,
    ),
    OpCase(
        bicubic.vec, IMAGE, None, vary={"align_corners": BOTH, "scale_factors": FACTORS}, dynamic="n 3 h w", **PLACES
    ),
    OpCase(bicubic.vec, IMAGE, [9, 10], vary={"align_corners": BOTH}, scale_factors=None, dtypes=FLOATS, **PLACES),
    OpCase(bicubic.vec, BYTES, vary=OF_BYTES, scale_factors=None, dynamic="n 3 h w"),
    OpCase(bicubic.vec, BYTES, None, False, vary={"scale_factors": FACTORS}, dynamic="n 3 h w"),
    OpCase(bicubic.default, IMAGE, [12, 10], False, vary=ONE_OF_EACH, dynamic="n", **PLACES),
    OpCase(bilinear_aa.default, IMAGE, vary={"output_size": SIZES, "align_corners": BOTH}, dynamic="n 3 h w", **PLACES),
    OpCase(bilinear_aa.default, IMAGE, [4, 3], False, dtypes=(torch.float32, torch.float64), **PLACES),
    OpCase(bilinear_aa.default, IMAGE, [3, 5], False, 1.7, 0.9, **PLACES),
    OpCase(bilinear_aa.vec, f(1, 2, 10, 20), None, False, [1.7, 0.9], **PLACES),
    OpCase(bilinear_aa.default, BYTES, vary=OF_BYTES, dynamic="n 3 h w"),
    OpCase(bilinear_aa.default, i(1, 3, 64, 41, high=256, dtype=torch.uint8), [7, 12], False),
    OpCase(bicubic_aa.default, BYTES, vary=OF_BYTES, dynamic="n 3 h w"),
    OpCase(bilinear_aa.vec, IMAGE, None, False, vary={"scale_factors": FACTORS}, dynamic="n 3 h w", **PLACES),
    OpCase(bicubic_aa.default, IMAGE, vary={"output_size": SIZES, "align_corners": BOTH}, dynamic="n 3 h w", **PLACES),
    OpCase(bicubic_aa.default, IMAGE, [4, 3], False, dtypes=(torch.float32, torch.float64), **PLACES),
    OpCase(bilinear_aa.vec, f(1, 2, 3, 8), None, True, [0.5, 0.7], dynamic="n 2 h w", **PLACES),  # to one line
    OpCase(bicubic_aa.vec, f(1, 2, 3, 8), None, True, [0.5, 0.7], dynamic="n 2 h w", **PLACES),
    OpCase(bicubic_aa.vec, IMAGE, None, False, vary={"scale_factors": FACTORS}, dynamic="n 3 h w", **PLACES),
)
