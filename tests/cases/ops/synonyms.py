"""Rows for fx_passes/decompositions/synonyms.py."""

import torch

from tests.cases.ops import BOOL, FLOATS, Draw, OpCase, f, i, v

aten, prims = torch.ops.aten, torch.ops.prims

INT8 = torch.int8
RANGE = (-128, 127)


def _product(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return a.to(dtype) @ b.to(dtype)


CASES = (
    OpCase(aten._is_all_true.default, f(2, 3), dtypes=BOOL, dynamic="n 3"),
    OpCase(aten._is_any_true.default, f(2, 3), dtypes=BOOL),
    OpCase(aten.narrow.Tensor, f(5, 3), 0, v(1, torch.int64), 2, dynamic="n 3"),
    OpCase(aten.narrow.Tensor, f(2, 5), -1, v(-4, torch.int32), 2, dynamic="n 5"),
    OpCase(aten._add_relu.Tensor, f(2, 3), f(3), vary={"alpha": (1, 2.5)}),
    OpCase(aten._trilinear.default, f(5, 2), f(4, 2, 3), f(5, 3), [1, 3], [0], [1, 2], [2, 3], dynamic="n 2,,n 3"),
    OpCase(aten._trilinear.default, f(2, 3), f(2, 3), f(2, 3), [], [], [], []),
    OpCase(aten.conv_tbc.default, f(7, 2, 3), f(3, 3, 4), f(4), 1),
    OpCase(
        aten._convolution.default,
        f(2, 3, 6, 7),
        f(4, 3, 3, 3),
        f(4),
        [1, 1],
        [1, 1],
        [1, 1],
        False,
        [0, 0],
        1,
        False,
        False,
        True,
        True,
    ),
    OpCase(
        aten._weight_int8pack_mm.default,
        f(4, 32),
        i(8, 32, low=-128, high=127, dtype=INT8),
        f(8, low=0.01, high=0.1),
        dtypes=(torch.float32, torch.bfloat16),
        tol={torch.bfloat16: (2e-2, 2e-2)},
        why="eager sums bfloat16 products in float32, ONNX Runtime rounds them first",
    ),
    *(
        OpCase(
            aten._scaled_mm.default,
            f(16, 32),
            f(32, 16),
            *(Draw(shape, torch.float32, low=0.5) for shape in scales),
            dtypes=(torch.float8_e4m3fn,),
            out_dtype=torch.float32,
            opsets=(23,),
            since=19,
        )
        for scales in (((1,), (1,)), ((16, 1), (1, 16)))
    ),
    OpCase(aten.mm.dtype, f(3, 4), f(4, 5), torch.float32, dtypes=(torch.float16,), reference=_product),
    OpCase(aten.bmm.dtype, f(2, 3, 4), f(2, 4, 5), torch.float32, dtypes=(torch.float16,), reference=_product),
    OpCase(
        aten._fake_quantize_learnable_per_tensor_affine.default,
        f(3, 4),
        f(1, low=0.1),
        f(1, low=-9.0, high=9.0),
        *RANGE,
    ),
    OpCase(
        aten._fake_quantize_learnable_per_channel_affine.default,
        f(3, 4),
        f(3, low=0.1),
        f(3, low=-9.0, high=9.0),
        0,
        *RANGE,
    ),
    OpCase(prims.sum.default, f(2, 3, 4), [0, 2]),
    OpCase(prims.amax.default, f(2, 3), [1], dtypes=FLOATS),
    OpCase(prims.amin.default, f(2, 3), [0, 1]),
)
