"""Rows for exporter/lowering/lowerings/conv_backward.py."""

import torch

from tests.cases.ops import OpCase, f

backward = torch.ops.aten.convolution_backward.default
ALL = [True, True, True]
NONE = [0, 0]

FEW = (
    OpCase(
        backward, f(2, 4, 8), f(2, 3, 8), f(4, 3, 3), [4], [1], [1], [1], False, [0], 1, ALL, dynamic="n 4 8, n 3 8"
    ),
    OpCase(
        backward,
        f(3, 4, 3, 4),
        f(3, 3, 8, 9),
        f(4, 3, 3, 2),
        [4],
        [2, 2],
        [1, 0],
        [2, 2],
        False,
        NONE,
        1,
        ALL,
        dynamic="n 4 3 4, n 3 8 9",
    ),
    OpCase(
        backward,
        f(2, 4, 2, 2, 3),
        f(2, 3, 2, 2, 3),
        f(4, 3, 1, 1, 1),
        [4],
        [1] * 3,
        [0] * 3,
        [1] * 3,
        False,
        [0] * 3,
        1,
        ALL,
    ),
    OpCase(
        backward, f(2, 4, 7), f(2, 3, 11), f(4, 3, 3), [4], [1], [0], [2], False, [0], 1, ALL, dynamic="n 4 7, n 3 11"
    ),
    OpCase(backward, f(2, 4, 7), f(2, 3, 21), f(4, 3, 3), [4], [2], [1], [5], False, [0], 1, ALL),
    OpCase(
        backward,
        f(2, 4, 3, 2, 2),
        f(2, 3, 5, 3, 3),
        f(4, 3, 2, 2, 2),
        [4],
        [1] * 3,
        [0] * 3,
        [2, 1, 1],
        False,
        [0] * 3,
        1,
        ALL,
    ),
    OpCase(backward, f(2, 5, 7, 5), f(2, 4, 3, 2), f(4, 5, 3, 3), [5], [2, 2], NONE, [1, 1], True, [0, 0], 1, ALL),
)
"""Outputs of so few places that products of matrices serve."""

MANY = (
    OpCase(
        backward,
        f(2, 4, 6, 7),
        f(2, 16, 6, 7),
        f(4, 16, 3, 3),
        [4],
        [1, 1],
        [1, 1],
        [1, 1],
        False,
        NONE,
        1,
        ALL,
        dynamic="n 4 6 7, n 16 6 7",
        tol={torch.float32: (1e-5, 5e-5)},
        why="sums of hundreds of products, in another order",
    ),
    OpCase(backward, f(2, 4, 20), f(2, 17, 41), f(4, 17, 3), [4], [2], [1], [2], False, [0], 1, ALL),
)
"""Outputs of more places, where a product serves the gradient of the weight."""

CASES = (
    *FEW,
    *MANY,
    OpCase(
        backward, f(2, 4, 8), f(2, 3, 8), f(4, 3, 3), [4], [1], [1], [1], False, [0], 1, ALL, dynamic="n 4 l, n 3 l"
    ),
    OpCase(backward, f(2, 4, 4, 5), f(2, 3, 8, 9), f(4, 3, 3, 3), [4], [2, 2], [1, 1], [1, 1], False, NONE, 1, ALL),
    OpCase(
        backward,
        f(2, 4, 4, 5),
        f(2, 3, 8, 9),
        f(4, 3, 3, 3),
        [4],
        [2, 2],
        [1, 1],
        [1, 1],
        False,
        NONE,
        1,
        ALL,
        dynamic="n 4 4 5, n",
    ),
    OpCase(backward, f(2, 6, 6, 7), f(2, 4, 8, 9), f(6, 2, 2, 2), [6], [1, 1], NONE, [2, 2], False, NONE, 2, ALL),
    OpCase(
        backward,
        f(2, 4, 6, 7),
        f(2, 4, 6, 7),
        f(4, 1, 3, 3),
        [4],
        [1, 1],
        [1, 1],
        [1, 1],
        False,
        NONE,
        4,
        ALL,
        dynamic="n 4 h w, n 4 h w",
        tol={torch.float32: (1e-5, 5e-5)},
        why="sums of hundreds of products, in another order",
    ),
    OpCase(
        backward,
        f(2, 4, 4, 5),
        f(2, 3, 8, 9),
        f(4, 3, 3, 3),
        [4],
        [2, 2],
        [1, 1],
        [1, 1],
        False,
        NONE,
        1,
        vary={"output_mask": ([True, False, False], [False, True, False], [True, True, False])},
    ),
    OpCase(
        backward,
        f(1, 3, 3, 4, 4),
        f(1, 2, 4, 4, 5),
        f(3, 2, 2, 3, 2),
        [3],
        [1] * 3,
        [0, 1, 0],
        [1] * 3,
        False,
        [0] * 3,
        1,
        ALL,
    ),
    OpCase(
        backward,
        f(2, 6, 9, 10),
        f(2, 4, 5, 5),
        f(4, 3, 3, 2),
        [6],
        [2, 2],
        [1, 0],
        [1, 1],
        True,
        NONE,
        2,
        ALL,
        dynamic="n, n",
    ),
    OpCase(backward, f(2, 3, 10, 11), f(2, 4, 5, 5), f(4, 3, 3, 2), [3], [2, 2], [1, 0], [1, 1], True, [1, 1], 1, ALL),
)
