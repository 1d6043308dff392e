"""Rows for exporter/lowering/lowerings/quant_blocks.py, with torchao. Scales are powers of 2, as in quant.py."""

from importlib.util import find_spec

import torch

from tests.cases.ops import OpCase, f, i, v

I8, U8 = torch.int8, torch.uint8

ONE = v([0.25], torch.float32)
ROWS, ROW_ZEROS = v([0.25, 0.5, 0.125], torch.float32), v([0, 3, -5], I8)
GROUPS, GROUP_ZEROS = v([[0.25, 0.5], [0.125, 1.0], [2.0, 0.5]], torch.float32), v([[0, 3], [-5, 1], [2, 0]], I8)
TOKENS, TOKEN_ZEROS = v([[0.25, 0.5, 0.125], [1.0, 2.0, 0.5]], torch.float32), v([[0, 3, -5], [1, 2, 0]], I8)
TOKEN_COLUMN = v([[[0.25], [0.5], [0.125]], [[1.0], [2.0], [0.5]]], torch.float32)
NEAR_HALF, NOUGHTS = f(2, 3, low=0.5, high=0.51), i(2, 3, low=0, high=1, dtype=I8)
SQUARES, SQUARE_ZEROS = v([[0.25, 0.5], [0.125, 1.0]], torch.float32), v([[0, 3], [-5, 1]], I8)
Q8 = i(3, 8, low=-128, high=128, dtype=I8)
Q4 = i(3, 64, low=-8, high=8, dtype=I8)


def _rows() -> tuple[OpCase, ...]:
    import torchao.quantization.quant_primitives  # noqa: F401  # registers the ops

    quantize, dequantize = torch.ops.torchao.quantize_affine.default, torch.ops.torchao.dequantize_affine.default
    return (
        OpCase(quantize, f(3, 8), [3, 8], ONE, v([3], I8), I8),
        OpCase(quantize, f(3, 8), [3, 8], ONE, v([0], I8), I8, -127, 127),
        OpCase(quantize, f(3, 8), [1, 8], ROWS, ROW_ZEROS, I8),
        OpCase(quantize, f(3, 8), [1, 8], v([[0.25], [0.5], [2.0]], torch.float32), ROW_ZEROS, I8, -8, 7),
        OpCase(quantize, f(3, 8), [1, 8], ROWS, v([0.5, 1.0, 2.0], torch.float32), U8),
        OpCase(quantize, f(3, 64), [1, 32], GROUPS, GROUP_ZEROS, I8, dtypes=(torch.float32, torch.bfloat16)),
        OpCase(quantize, f(2, 3, 8), [1, 1, 8], NEAR_HALF, NOUGHTS, I8, dynamic="n m 8, n m, n m"),
        OpCase(quantize, f(2, 3, 8), [1, 1, 8], TOKENS, TOKEN_ZEROS, I8),
        OpCase(quantize, f(4, 6), [2, 3], SQUARES, SQUARE_ZEROS, I8),
        OpCase(dequantize, Q8, [3, 8], ONE, v([3], I8), I8),
        OpCase(dequantize, Q8, [1, 8], ROWS, ROW_ZEROS, I8, output_dtype=torch.float16),
        OpCase(dequantize, Q8, [1, 8], ROWS, None, I8),
        OpCase(dequantize, Q8, [3, 1], f(8, low=0.1, high=1.0), None, I8),
        OpCase(dequantize, Q4, [1, 32], GROUPS, GROUP_ZEROS, I8, -8, 7),
        OpCase(dequantize, Q4, [1, 32], GROUPS, v([[0.5, 3], [-5, 1], [2, 0]], torch.float32), I8, -8, 7),
        OpCase(dequantize, i(2, 3, 8, low=-128, high=128, dtype=I8), [1, 1, 8], TOKEN_COLUMN, None, I8),
        OpCase(dequantize, i(4, 6, low=0, high=256, dtype=U8), [2, 3], SQUARES, SQUARE_ZEROS, U8),
    )


CASES = _rows() if find_spec("torchao") else ()
