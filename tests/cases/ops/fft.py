"""Rows for exporter/lowering/lowerings/fft.py: small and large sizes, powers of 2 and others, all norms."""

from __future__ import annotations

import torch

from fxport.fx_passes import fourier  # noqa: F401  # registers the ops
from tests.cases.ops import OpCase, f

fxport = torch.ops.fxport

REALS = (torch.float32, torch.float64)
NORMS = (0, 1, 2)

CASES = (
    OpCase(fxport.fft_r2c.default, f(3, 12), [1], 0, True, dtypes=REALS),
    OpCase(fxport.fft_r2c.default, f(4, 7), [0, 1], 1, True, dynamic="n 7"),
    OpCase(fxport.fft_r2c.default, f(3, 9), [1], 2, False, dynamic="3 n"),
    OpCase(fxport.fft_r2c.default, f(2, 64, 3), [1], 2, True, dtypes=REALS),
    OpCase(fxport.fft_r2c.default, f(64), [0], 0, False),
    OpCase(fxport.fft_r2c.default, f(2, 1000), [1], 1, True, dtypes=REALS),
    OpCase(fxport.fft_r2c.default, f(1), [0], 0, True),
    OpCase(fxport.fft_c2c.default, f(3, 5, 2), [0, 1], 0, True, dtypes=REALS, dynamic="n 5 2"),
    OpCase(fxport.fft_c2c.default, f(3, 5, 2), [1], 2, False, dtypes=REALS, dynamic="3 n 2"),
    OpCase(fxport.fft_c2c.default, f(32, 2), [0], 1, False),
    OpCase(fxport.fft_c2c.default, f(64, 3, 2), [0, 1], 2, False, dtypes=REALS),
    OpCase(fxport.fft_c2c.default, f(2, 600, 2), [1], 1, True, dtypes=REALS),
    OpCase(fxport.fft_c2r.default, f(3, 7, 2), [1], 0, 12, dtypes=REALS),
    OpCase(fxport.fft_c2r.default, f(3, 7, 2), [1], 1, 13),
    OpCase(fxport.fft_c2r.default, f(4, 33, 2), [0, 1], 2, 64, dtypes=REALS, dynamic="n 33 2"),
    OpCase(fxport.fft_c2r.default, f(2, 301, 2), [1], 2, 601, dtypes=REALS),
    OpCase(fxport.fft_c2r.default, f(1, 2), [0], 0, 1),
)
