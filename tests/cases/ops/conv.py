"""Rows for exporter/lowering/lowerings/conv.py."""

from typing import Any

import torch

from tests.cases.ops import OpCase, f

aten = torch.ops.aten

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _summed_in_float32(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *geometry: Any, **named: Any) -> Any:
    """A transposed convolution rounded once: eager adds up in half precision, in bfloat16 on some processors only."""
    function = aten.conv_transpose1d.default if weight.dim() == 3 else aten.conv_transpose2d.input
    wide = (tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in (x, weight, bias))
    return function(*wide, *geometry, **named).to(x.dtype)


def _there_and_back(
    x: torch.Tensor, weight: torch.Tensor, turned: torch.Tensor, stride: Any, padding: Any, dilation: Any, groups: int
) -> torch.Tensor:
    """A convolution and a transposed one that gives the sizes of the input again: its output padding is what lacks."""
    axes = x.dim() - 2
    y = getattr(torch.nn.functional, f"conv{axes}d")(x, weight, None, stride, padding, dilation)
    kernel = turned.shape[2:]
    missing = [
        x.shape[2 + i] - ((y.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1)
        for i in range(axes)
    ]
    transposed = getattr(torch.nn.functional, f"conv_transpose{axes}d")
    return transposed(y, turned, torch.ones(turned.shape[1] * groups), stride, padding, missing, groups, dilation)


CASES = (
    OpCase(
        aten.conv1d.default,
        f(2, 3, 29),
        f(4, 3, 3),
        f(4),
        vary={"stride": ([1], [2]), "padding": ([0], [2]), "dilation": ([1], [2])},
        dtypes=DTYPES,
        dynamic="n 3 l",
    ),
    OpCase(aten.conv1d.default, f(3, 9), f(4, 3, 3), None, dynamic="3 l"),  # no batch, no bias
    OpCase(aten.conv1d.padding, f(2, 3, 29), f(4, 3, 4), None, [1], "same", [2], dynamic="n 3 l"),  # 3 before, 3 after
    OpCase(
        aten.conv2d.default,
        f(2, 4, 7, 8),
        f(6, 2, 3, 2),
        f(6),
        [2, 1],
        [1, 0],
        [1, 2],
        2,
        dtypes=DTYPES,
        dynamic="n 4 h w",
    ),
    OpCase(aten.conv2d.default, f(2, 4, 7, 8), f(4, 1, 3, 3), None, [1], [1], [1], 4),  # depthwise
    OpCase(aten.conv2d.default, f(3, 7, 8), f(4, 3, 1, 1), f(4), dynamic="3 h w"),
    OpCase(aten.conv2d.default, f(0, 3, 7, 8), f(4, 3, 3, 3), f(4)),
    OpCase(
        aten.conv2d.padding, f(2, 3, 7, 8), f(4, 3, 4, 2), f(4), vary={"padding": ("same", "valid")}, dynamic="n 3 h w"
    ),
    OpCase(aten.conv2d.padding, f(3, 7, 8), f(4, 3, 2, 2), f(4), [1, 1], "same", [3, 2]),
    OpCase(aten.conv2d.default, f(1, 12, 7, 8), f(4, 3, 3, 3), None, [1], [1], [2], 4, dtypes=(torch.float64,)),
    OpCase(aten.conv3d.default, f(1, 2, 4, 5, 6), f(3, 2, 2, 3, 2), f(3), [1, 2, 1], [1, 1, 0], dynamic="n 2 d h w"),
    OpCase(aten.conv3d.padding, f(1, 2, 4, 5, 6), f(3, 2, 2, 3, 2), None, [1, 1, 1], "same"),
    OpCase(
        aten.conv_transpose1d.default,
        f(2, 4, 5),
        f(4, 3, 3),
        f(3),
        vary={"stride": ([1], [2]), "padding": ([0], [1]), "dilation": ([1], [2])},
        dtypes=DTYPES,
        dynamic="n 4 l",
        reference=_summed_in_float32,
    ),
    OpCase(aten.conv_transpose1d.default, f(4, 5), f(4, 3, 3), None, dynamic="4 l"),
    OpCase(
        aten.conv_transpose2d.input,
        f(2, 4, 5, 6),
        f(4, 3, 3, 2),
        f(6),
        [2, 3],
        [1, 0],
        [1, 2],
        2,
        dtypes=DTYPES,
        dynamic="n 4 h w",
        reference=_summed_in_float32,
    ),
    OpCase(
        aten.conv_transpose2d.input, f(1, 4, 5, 5), f(4, 3, 3, 3), f(3), [1, 1], [1, 0], [1, 1], 1, [2, 2]
    ),  # crop less
    OpCase(
        aten.conv_transpose2d.input,
        f(4, 5, 5),
        f(4, 3, 3, 3),
        f(3),
        [1, 2],
        [1, 1],
        [2, 2],
        1,
        [3, 3],
        dtypes=(torch.float32, torch.float64),
    ),
    OpCase(
        aten.conv_transpose3d.input,
        f(1, 2, 3, 4, 3),
        f(2, 3, 2, 3, 2),
        None,
        [2],
        [1],
        [1],
        dtypes=(torch.float32, torch.float64),
        dynamic="n 2 d h w",
    ),
    OpCase(
        aten.convolution.default,
        f(2, 4, 7, 8),
        f(6, 2, 3, 2),
        f(6),
        [2, 1],
        [1, 0],
        [1, 2],
        False,
        [0, 0],
        2,
        dynamic="n 4 h w",
    ),
    OpCase(aten.convolution.default, f(2, 4, 5, 6), f(4, 3, 3, 2), None, [2, 3], [1, 0], [1, 1], True, [1, 2], 1),
    OpCase(aten.convolution.default, f(2, 3, 9), f(4, 3, 3), f(4), [2], [1], [1], False, [0], 1),
    OpCase(_there_and_back, f(2, 2, 11), f(4, 2, 3), f(4, 3, 3), [2], [1], [1], 1, dynamic="b 2 l"),
    OpCase(_there_and_back, f(2, 2, 14), f(4, 2, 3), f(4, 2, 3), [3], [1], [1], 2, dynamic="b 2 l"),
    OpCase(_there_and_back, f(2, 2, 21), f(4, 2, 3), f(4, 2, 3), [2], [1], [5], 1, dynamic="b 2 l"),
    OpCase(
        _there_and_back, f(1, 2, 12, 15), f(4, 2, 3, 3), f(4, 3, 3, 3), [2, 3], [1, 0], [1, 2], 1, dynamic="b 2 h w"
    ),
    OpCase(
        _there_and_back, f(2, 2, 11, 14), f(4, 2, 4, 3), f(4, 1, 4, 3), [3, 2], [1, 1], [1, 1], 4, dynamic="b 2 h w"
    ),
    OpCase(
        _there_and_back,
        f(1, 2, 6, 7, 8),
        f(2, 2, 3, 3, 3),
        f(2, 2, 3, 3, 3),
        [2] * 3,
        [1] * 3,
        [1] * 3,
        1,
        dynamic="b 2 d h w",
    ),
)
