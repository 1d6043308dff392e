"""Rows for exporter/lowering/lowerings/logic.py."""

import math

import torch

from tests.cases.ops import BOOL, INTS, OpCase, b, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims

SOME = (torch.float32, torch.float16, *INTS, *BOOL)
SIGNED = INTS[:-1]
NUMBERS = v((5, -5, 0, 1, -1, 100, -100, 127, -128))
SHIFTS = v((0, 1, 2, 6, 7, 3, 3, -1, 9))

CASES = (
    *(
        OpCase(op.default, f(2, 3), f(3), dtypes=SOME, dynamic="n 3")
        for op in (aten.logical_and, aten.logical_or, aten.logical_xor)
    ),
    OpCase(aten.logical_and.default, v((0.0, math.nan, 0.5, -0.0)), i(4)),
    OpCase(aten.logical_not.default, f(2, 3), dtypes=SOME, dynamic="n 3"),
    *(
        OpCase(op.Tensor, f(2, 3), f(3), dtypes=(*INTS, *BOOL), dynamic="n 3")
        for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)
    ),
    *(
        OpCase(op.Scalar, f(2, 3), 3, dtypes=(*INTS, *BOOL))
        for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)
    ),
    *(OpCase(op.Scalar, b(2, 3), True) for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)),
    *(
        OpCase(op.Scalar_Tensor, 5, f(2, 3), dtypes=(torch.int64, torch.int32))
        for op in (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)
    ),
    *(
        OpCase(op.default, f(2, 3), f(2, 3), dtypes=(torch.int64,))
        for op in (prims.bitwise_and, prims.bitwise_or, prims.bitwise_xor)
    ),
    *(
        OpCase(op, f(2, 3), f(3), dtypes=(torch.int64, *BOOL))
        for op in (aten.__and__.Tensor, aten.__or__.Tensor, aten.__xor__.Tensor)
    ),
    *(
        OpCase(op, f(2, 3), 6, dtypes=(torch.int64,))
        for op in (aten.__and__.Scalar, aten.__or__.Scalar, aten.__xor__.Scalar)
    ),
    OpCase(aten.bitwise_not.default, f(2, 3), dtypes=(*INTS, *BOOL), dynamic="n 3"),
    OpCase(prims.bitwise_not.default, f(2, 3), dtypes=(torch.int64,)),
    *(
        OpCase(op, NUMBERS, SHIFTS, dtypes=SIGNED)
        for op in (aten.bitwise_left_shift.Tensor, aten.bitwise_right_shift.Tensor)
    ),
    *(
        OpCase(op, f(9, low=0, high=255), f(9, low=0, high=9), dtypes=(torch.uint8,))
        for op in (aten.bitwise_left_shift.Tensor, aten.bitwise_right_shift.Tensor)
    ),
    *(
        OpCase(op, f(2, 3), shift, dtypes=INTS)
        for op in (aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_right_shift.Tensor_Scalar)
        for shift in (0, 2, 7)
    ),
    *(
        OpCase(
            aten.bitwise_right_shift.Tensor_Scalar,
            v([-(2**63), -77, -1, 0, 5, 2**63 - 1]),
            shift,
            dtypes=(torch.int64,),
        )
        for shift in (1, 31, 63, 64)
    ),
    *(
        OpCase(op, -77, f(2, 3, low=0, high=9), dtypes=(torch.int64,))
        for op in (aten.bitwise_left_shift.Scalar_Tensor, aten.bitwise_right_shift.Scalar_Tensor)
    ),
    *(
        OpCase(op, f(2, 3), f(3, low=0, high=5), dtypes=(torch.int64, torch.int32), dynamic="n 3")
        for op in (aten.__lshift__.Tensor, aten.__rshift__.Tensor)
    ),
    *(OpCase(op, f(2, 3), 2, dtypes=SIGNED) for op in (aten.__lshift__.Scalar, aten.__rshift__.Scalar)),
    *(
        OpCase(op.default, f(2, 3), f(2, 3, low=0, high=5), dtypes=(torch.int64,))
        for op in (prims.shift_left, prims.shift_right_arithmetic)
    ),
)
