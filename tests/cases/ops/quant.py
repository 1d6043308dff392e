"""Rows for exporter/lowering/lowerings/quant.py. Scales are powers of 2: by others, PyTorch and ONNX differ at ties."""

from __future__ import annotations

import math

import torch
import torch.ao.quantization.fx._decomposed  # registers the ops

from tests.cases.ops import OpCase, f, i, v

aten = torch.ops.aten
q = torch.ops.quantized_decomposed

HALVES = (torch.float32, torch.bfloat16)

I8, U8, I16, U16, I32 = torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32

SCALES = v([0.25, 0.5, 0.125], torch.float32)
ZEROS = v([0, 3, -5], torch.int64)
EDGES = v((math.nan, math.inf, -math.inf, 3e9, -3e9, 0.0, 1.3))
EDGES_BY_CHANNEL = v([[math.nan, 1.3], [-math.inf, -0.2], [math.nan, 3e9]])
NOUGHTS = v([0, 0, 0], torch.int64)


def _many(low: int, high: int, dtype: torch.dtype) -> object:
    return i(3, 8, low=low, high=high, dtype=dtype)


CASES = (
    OpCase(q.quantize_per_tensor.default, f(3, 4), 0.25, 3, -128, 127, I8, dtypes=HALVES, dynamic="n 4"),
    OpCase(q.quantize_per_tensor.default, f(3, 4), 0.25, 3, -127, 127, I8),
    OpCase(q.quantize_per_tensor.default, f(3, 4), 0.25, 100, 0, 255, U8),
    OpCase(q.quantize_per_tensor.default, f(3, 4), 0.25, 2, -8, 7, I8),
    OpCase(q.quantize_per_tensor.default, f(3, 4), 2**-12, 0, -32768, 32767, I16),
    OpCase(q.quantize_per_tensor.default, f(3, 4), 2**-12, 7, 0, 65535, U16, opsets=(26,)),
    OpCase(q.quantize_per_tensor.default, f(3, 4), 2**-16, 0, -(2**31), 2**31 - 1, I32),
    OpCase(q.quantize_per_tensor.tensor, f(3, 4), v([0.25]), v([3]), -128, 127, I8),
    OpCase(q.quantize_per_tensor.tensor, f(3, 4), v(0.25), v(3, torch.int32), -128, 127, I8),
    OpCase(q.quantize_per_tensor.tensor2, f(3, 4), v(0.25), v(3), v(-100), v(20), I8),
    OpCase(q.dequantize_per_tensor.default, _many(-128, 128, I8), 0.3, 3, -128, 127, I8, dynamic="n 8"),
    OpCase(q.dequantize_per_tensor.default, _many(0, 255, U8), 0.3, 7, 0, 255, U8, out_dtype=torch.float16),
    OpCase(q.dequantize_per_tensor.default, _many(-32768, 32767, I16), 0.3, 7, -32768, 32767, I16),
    OpCase(q.dequantize_per_tensor.default, _many(-9999, 9999, I32), 0.3, 0, -(2**31), 2**31 - 1, I32),
    OpCase(q.dequantize_per_tensor.tensor, _many(-128, 128, I8), v([0.3]), v([3]), -128, 127, I8),
    OpCase(q.dequantize_per_tensor.tensor2, _many(-128, 128, I8), v(0.3), v(3), v(-128), v(127), I8),
    OpCase(q.quantize_per_channel.default, f(3, 4), SCALES, ZEROS, 0, -128, 127, I8, dynamic="3 n"),
    OpCase(q.quantize_per_channel.default, f(2, 3, 4), SCALES, ZEROS, -2, -127, 127, I8),
    OpCase(q.quantize_per_channel.default, f(2, 3), SCALES, NOUGHTS, 1, -(2**31), 2**31 - 1, I32),
    OpCase(q.dequantize_per_channel.default, _many(-128, 128, I8), SCALES, ZEROS, 0, -128, 127, I8),
    OpCase(q.dequantize_per_channel.default, _many(-128, 128, I8), SCALES, None, 0, -128, 127, I8),
    OpCase(
        q.dequantize_per_channel.default,
        _many(-128, 128, I8),
        SCALES,
        v([0.5, 1.0, 2.0], torch.float32),
        0,
        -128,
        127,
        I8,
    ),
    OpCase(q.quantize_per_token.default, f(3, 8), v([[0.25], [0.5], [2.0]]), v([[0], [3], [1]]), -128, 127, I8),
    OpCase(
        q.dequantize_per_token.default,
        _many(-128, 128, I8),
        v([[0.25], [0.5], [2.0]]),
        v([[0], [3], [1]]),
        -128,
        127,
        I8,
        torch.float32,
    ),
    OpCase(
        q.quantize_per_channel_group.default,
        f(2, 8),
        v([[0.25, 0.5], [0.5, 2.0]], torch.float32),
        v([[0, 1], [2, -3]], torch.int32),
        -8,
        7,
        I8,
        4,
    ),
    OpCase(
        q.dequantize_per_channel_group.default,
        i(2, 8, low=-8, high=8, dtype=I8),
        v([[0.25, 0.5], [0.5, 2.0]], torch.float32),
        v([[0, 1], [2, -3]], torch.int32),
        -8,
        7,
        I8,
        4,
        torch.float32,
    ),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 0.25, 4, 0, 255, dynamic="n 4"),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 0.25, 2, -127, 127),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 0.25, 0, -8, 7),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 0.25, 2, 0, 15),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 0.25, 2, 0, 7),
    *(
        OpCase(aten.fake_quantize_per_tensor_affine.default, EDGES, 0.25, 2, low, high)
        for low, high in ((-8, 7), (-128, 127), (0, 255), (-127, 127), (-32768, 32767), (-(2**20), 2**20))
    ),
    *(
        OpCase(
            aten.fake_quantize_per_channel_affine.default, EDGES_BY_CHANNEL, SCALES, v([0, 2, -4], I32), 0, low, high
        )
        for low, high in ((-8, 7), (-128, 127), (-32768, 32767))
    ),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 2**-12, 2, -32768, 32767),
    OpCase(aten.fake_quantize_per_tensor_affine.default, f(3, 4), 2**-16, 0, -(2**20), 2**20),
    OpCase(
        aten.fake_quantize_per_tensor_affine.tensor_qparams, f(3, 4), v(0.25), v(4, torch.int32), 0, 255, dynamic="n 4"
    ),
    OpCase(aten.fake_quantize_per_tensor_affine_cachemask.default, f(3, 4), 0.25, 2, -3, 4),
    OpCase(aten.fake_quantize_per_tensor_affine_cachemask.default, f(3, 4), 0.25, 0, -3, 4),
    OpCase(
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
        f(3, 4),
        v(0.25),
        v(2, torch.int32),
        v([1]),
        -3,
        4,
    ),
    OpCase(
        aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
        f(3, 4),
        v(0.25),
        v(2, torch.int32),
        v([0]),
        -3,
        4,
    ),
    OpCase(
        aten.fake_quantize_per_channel_affine.default,
        f(3, 4),
        SCALES,
        v([0, 2, -4], torch.int32),
        0,
        -128,
        127,
        dynamic="3 n",
    ),
    OpCase(
        aten.fake_quantize_per_channel_affine_cachemask.default, f(3, 4), SCALES, v([0, 2, -4], torch.int32), 0, -9, 9
    ),
)
