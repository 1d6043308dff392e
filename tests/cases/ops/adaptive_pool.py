"""Rows for exporter/lowering/lowerings/adaptive_pool.py."""

import math

import torch

from tests.cases.ops import FLOATS, OpCase, f, v
from tests.cases.ops.pool import LOW

aten = torch.ops.aten


def _of_chosen(x: torch.Tensor, chosen: torch.Tensor, output_size: tuple[int, int]) -> torch.Tensor:
    """Of the images that are chosen, be there any or none."""
    return aten.adaptive_avg_pool2d.default(x[chosen], output_size)


def _largest_of_chosen(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    return aten.adaptive_max_pool2d.default(x[chosen], (2, 4))[0]


def _scaled(x: torch.Tensor) -> torch.Tensor:
    """To a size that an input has."""
    return torch.nn.functional.interpolate(x, scale_factor=1.5, mode="area")


def _lowest(x: torch.Tensor) -> torch.Tensor:
    return aten.adaptive_max_pool1d.default(x, [5])[0]


SPECIAL = v([[math.inf, 1.0, 2.0, 3.0, 4.0, 5.0, math.nan], [1.0, 2.0, -math.inf, math.inf, 3.0, 4.0, 5.0]])

CASES = (
    *(
        OpCase(_of_chosen, f(3, 2, 5, 7), v([chosen] * 3, torch.bool), vary={"output_size": ((3, 2), (3, 7), (1, 4))})
        for chosen in (True, False)
    ),
    OpCase(_largest_of_chosen, f(3, 2, 5, 7), v([False] * 3, torch.bool)),
    OpCase(
        aten.adaptive_avg_pool1d.default,
        f(2, 3, 10),
        vary={"output_size": ([1], [4], [13])},
        dtypes=FLOATS,
        dynamic="n 3 l",
    ),
    OpCase(aten.adaptive_avg_pool1d.default, f(2, 3, 10), [5], dtypes=FLOATS, dynamic="n 3 l"),
    OpCase(aten.adaptive_avg_pool1d.default, SPECIAL, vary={"output_size": ([3], [4], [9])}, dtypes=FLOATS),
    OpCase(aten.adaptive_avg_pool1d.default, f(3, 10), vary={"output_size": ([1], [4], [5])}, dynamic="3 l"),
    OpCase(
        aten.adaptive_avg_pool2d.default,
        f(2, 3, 8, 9),
        vary={"output_size": ([1, 1], [3, 4], [1, 4], [8, 1], [8, 9], [8, 4], [11, 2])},
        dtypes=FLOATS,
        dynamic="n 3 h w",
    ),
    OpCase(
        aten.adaptive_avg_pool2d.default,
        f(2, 3, 8, 9),
        vary={"output_size": ([4, 3], [8, 3])},
        dtypes=FLOATS,
        dynamic="n 3 h w",
    ),
    OpCase(
        aten.adaptive_avg_pool2d.default, f(3, 8, 9), vary={"output_size": ([1, 1], [4, 3], [3, 2])}, dynamic="3 h w"
    ),
    OpCase(aten._adaptive_avg_pool2d.default, f(2, 3, 8, 9), vary={"output_size": ([1, 1], [3, 5])}, dynamic="n 3 h w"),
    OpCase(
        aten.adaptive_avg_pool3d.default,
        f(2, 3, 4, 6, 7),
        vary={"output_size": ([1, 1, 1], [3, 4, 2], [2, 3, 7], [4, 1, 3])},
        dynamic="n 3 d h w",
    ),
    OpCase(
        aten._adaptive_avg_pool3d.default,
        f(2, 3, 4, 6, 7),
        vary={"output_size": ([1, 1, 1], [3, 4, 2])},
        dynamic="n 3 d h w",
    ),
    OpCase(aten.adaptive_avg_pool2d.default, f(3, 4), [1, 1]),  # PyTorch takes it as a mean
    OpCase(_scaled, f(2, 3, 6, 8), dynamic="n 3 h w"),
    OpCase(aten.adaptive_avg_pool3d.default, f(0, 3, 4, 6, 7), [3, 4, 5]),
    OpCase(_lowest, LOW, dtypes=FLOATS),
    OpCase(aten.adaptive_max_pool1d.default, f(2, 3, 10), vary={"output_size": ([1], [4], [5], [13])}, dtypes=FLOATS),
    OpCase(
        aten.adaptive_max_pool2d.default,
        f(2, 3, 8, 9),
        vary={"output_size": ([1, 1], [3, 4], [4, 3], [8, 4], [11, 2])},
        dtypes=FLOATS,
    ),
    OpCase(aten.adaptive_max_pool2d.default, f(2, 3, 8, 9), vary={"output_size": ([1, 1], [3, 4])}, dynamic="n 3 h w"),
    OpCase(
        aten.adaptive_max_pool2d.default, v([[[1.0, 2, 2, 1], [2, 2, 1, 0], [0, 2, 2, 2]]]), [2, 3]
    ),  # the first of equals
    OpCase(aten.adaptive_max_pool2d.default, f(3, 8, 9), vary={"output_size": ([1, 1], [3, 4])}),
    OpCase(aten.adaptive_max_pool3d.default, f(2, 3, 4, 6, 7), vary={"output_size": ([1, 1, 1], [3, 4, 2], [2, 3, 7])}),
)
