"""Rows for exporter/lowering/lowerings/norm.py."""

import torch

from tests.cases.ops import FLOATS, Draw, OpCase, f

aten = torch.ops.aten
f32 = torch.float32


CASES = (
    OpCase(aten.layer_norm.default, f(2, 3, 8), [8], f(8), f(8), dtypes=FLOATS, dynamic="n s 8"),
    OpCase(aten.layer_norm.default, f(2, 3, 8), [3, 8], None, None, 1e-3, dtypes=FLOATS, dynamic="n"),
    OpCase(aten.layer_norm.default, f(2, 3, 8), [8], f(8), None),
    OpCase(aten.layer_norm.default, f(2, 3, 8), [8], None, f(8)),
    OpCase(aten.layer_norm.default, f(0, 8), [8], f(8), f(8)),
    OpCase(aten.layer_norm.default, f(2, 0), [0], f(0), f(0)),
    OpCase(aten.rms_norm.default, f(2, 0), [0]),
    OpCase(aten.group_norm.default, f(2, 4, 0), 2),
    OpCase(aten.layer_norm.default, f(8), [8]),
    OpCase(aten.layer_norm.default, f(2, 8), [8], Draw((8,), f32), Draw((8,), f32), dtypes=(torch.bfloat16,)),  # wider
    OpCase(aten.native_layer_norm.default, f(2, 3, 8), [3, 8], f(3, 8), f(3, 8), 1e-5, dtypes=FLOATS, dynamic="n"),
    OpCase(aten.native_layer_norm.default, f(2, 3, 8), [8], None, None, 1e-5, dynamic="n s 8"),
    OpCase(aten.group_norm.default, f(2, 6, 4, 5), 3, f(6), f(6), dtypes=FLOATS, dynamic="n 6 h w"),
    OpCase(aten.group_norm.default, f(2, 6, 5), 2, dtypes=FLOATS, dynamic="n 6 l"),
    OpCase(aten.group_norm.default, f(2, 6), 2, f(6), None, dynamic="n 6"),
    OpCase(aten.group_norm.default, f(2, 6, 2, 2, 2), 6, None, f(6), 1e-2),
    OpCase(aten.group_norm.default, f(0, 6, 4), 2, f(6), f(6)),
    OpCase(aten.native_group_norm.default, f(2, 6, 4), f(6), f(6), 2, 6, 4, 3, 1e-5, dtypes=FLOATS),
    OpCase(aten.native_group_norm.default, f(2, 6, 4), None, None, 2, 6, 4, 2, 1e-5),
    OpCase(
        aten.instance_norm.default,
        f(2, 3, 4, 5),
        f(3),
        f(3),
        None,
        None,
        True,
        0.1,
        1e-5,
        True,
        dtypes=FLOATS,
        dynamic="n 3 h w",
        tol={torch.float16: (2e-3, 2e-3), torch.bfloat16: (2e-2, 2e-2)},
        why="eager rounds the statistics to half precision; here they stay float32",
    ),
    OpCase(aten.instance_norm.default, f(2, 3, 7), None, None, None, None, True, 0.1, 1e-3, True, dynamic="n 3 l"),
    OpCase(aten.instance_norm.default, f(2, 3, 7), f(3), f(3), f(3), f(3, low=0.5, high=2.0), False, 0.1, 1e-5, True),
    OpCase(aten.rms_norm.default, f(2, 3, 8), [8], f(8), 1e-6, dtypes=FLOATS, dynamic="n s 8"),
    OpCase(aten.rms_norm.default, f(2, 3, 8, low=0.0, high=1e-3), [8], dtypes=FLOATS, dynamic="n s 8"),  # eps decides
    OpCase(aten.rms_norm.default, f(2, 3, 8), [3, 8], f(3, 8), dynamic="n"),
    OpCase(aten._fused_rms_norm.default, f(2, 3, 8), [8], f(8), 1e-6, dtypes=FLOATS, dynamic="n s 8"),
)
