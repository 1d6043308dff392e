"""Rows for fx_passes/decompositions/observers.py."""

import torch

from tests.cases.ops import OpCase, f, v

aten = torch.ops.aten

NONE, SEEN = ([float("inf")], [float("-inf")]), ([-0.75], [1.5])
"""Bounds before the first call, and later."""


def _whole(bounds: tuple[list[float], list[float]], on: tuple[int, int], *, symmetric: bool) -> OpCase:
    low, high = (v(each, torch.float32) for each in bounds)
    grid = v([0.5], torch.float32), v([3], torch.int32)
    switches = (v([each], torch.int64) for each in on)
    rest = 0.01, -128, 127, -1, False, symmetric
    return OpCase(aten._fused_moving_avg_obs_fq_helper_functional.default, f(3, 4), *switches, low, high, *grid, *rest)


def _rows(on: tuple[int, int]) -> OpCase:
    low, high = v([-0.5, -4.0, 0.0], torch.float32), v([0.75, 0.0, 3.0], torch.float32)
    grid = v([0.25, 0.5, 0.125], torch.float32), v([0, 0, 0], torch.int32)
    switches = (v([each], torch.int64) for each in on)
    rest = 0.5, -128, 127, 0, True, True
    helper = aten._fused_moving_avg_obs_fq_helper_functional.default
    return OpCase(helper, f(3, 4, 2), *switches, low, high, *grid, *rest)


CASES = (
    *(_whole(bounds, on, symmetric=False) for bounds in (NONE, SEEN) for on in ((1, 1), (0, 1), (1, 0))),
    _whole(SEEN, (1, 1), symmetric=True),
    _rows((1, 1)),
    _rows((0, 0)),
    OpCase(
        aten._fake_quantize_learnable_per_tensor_affine_backward.default,
        f(3, 4),
        f(3, 4),
        v([0.25], torch.float32),
        v([-2.625], torch.float32),
        -4,
        3,
        0.5,
    ),
    OpCase(
        aten._fake_quantize_learnable_per_channel_affine_backward.default,
        f(3, 4),
        f(3, 4),
        v([0.25, 0.5, 0.125], torch.float32),
        v([-2.625, 0.25, 1.0], torch.float32),
        0,
        -4,
        3,
    ),
)
