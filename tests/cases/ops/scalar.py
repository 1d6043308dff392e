"""Rows for exporter/lowering/lowerings/scalar.py."""

import math

import torch

from tests.cases.ops import ALL, INTS, OpCase, b, f, i, v

aten = torch.ops.aten
prims = torch.ops.prims

WIDE = v((0.0, -0.0, 0.5, -0.5, -1.0, -1.7, 200.7, 255.9, 300.0, -300.0, 70000.0, -70000.0, math.nan))


def rounded_to(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What another dtype makes of the values."""
    return x.to(dtype).to(x.dtype)


CASES = (
    OpCase(aten._to_copy.default, f(2, 3), vary={"dtype": ALL}, dtypes=ALL, opsets=(18, 26)),
    OpCase(aten._to_copy.default, f(2, 3), dtype=torch.int64, dynamic="n m"),
    OpCase(
        rounded_to,
        v([1.1, -300.0, 449.0, 57345.0, 1e6, float("inf"), float("-inf"), float("nan"), 1e-9, -0.0]),
        vary={"dtype": (torch.float8_e4m3fn, torch.float8_e5m2)},
        opsets=(23,),
        since=19,
    ),
    OpCase(aten._to_copy.default, WIDE, vary={"dtype": (*INTS, torch.bool)}, dtypes=(torch.float32, torch.float64)),
    OpCase(
        aten._to_copy.default,
        v((0, -1, 300, -300, 70000, 2**31, 2**40 + 5)),
        vary={"dtype": ALL},
        dtypes=(torch.int64,),
    ),
    OpCase(aten.to.dtype, f(2, 3), torch.int32, dtypes=(torch.float32, torch.float16)),
    OpCase(aten.to.dtype, b(2, 3), torch.float16),
    OpCase(aten.to.device, f(2, 3), torch.device("cpu"), torch.float64),
    OpCase(aten.to.dtype_layout, f(2, 3), dtype=torch.float16),
    OpCase(aten.to.other, f(2, 3), i(1)),
    OpCase(aten.type_as.default, f(2, 3), i(1)),
    OpCase(prims.convert_element_type.default, f(2, 3), torch.int64),
    OpCase(prims.device_put.default, f(2, 3), torch.device("cpu")),
    OpCase(aten.scalar_tensor.default, 3, vary={"dtype": ALL}),
    OpCase(aten.scalar_tensor.default, math.inf),
    OpCase(prims.scalar_tensor.default, 2.5, dtype=torch.float32, device=torch.device("cpu")),
)
