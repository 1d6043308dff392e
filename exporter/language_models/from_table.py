"""Weights of linear layers in 4 bits that are places in a table, as `MatMulBnb4` of ONNX Runtime takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fxport.exporter.language_models.few_bits import FewBits

TABLES: Mapping[str, tuple[int, tuple[float, ...]]] = {
    "fp4": (0, (0.0, 0.0052083333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)),
    "nf4": (
        1,
        (
            -1.0,
            -0.6961928009986877,
            -0.5250730514526367,
            -0.39491748809814453,
            -0.28444138169288635,
            -0.18477343022823334,
            -0.09105003625154495,
            0.0,
            0.07958029955625534,
            0.16093020141124725,
            0.24611230194568634,
            0.33791524171829224,
            0.44070982933044434,
            0.5626170039176941,
            0.7229568362236023,
            1.0,
        ),
    ),
}
"""The number of a table in ONNX Runtime, and its values; those of fp4 are there with the other sign too.

https://arxiv.org/abs/2305.14314 (QLoRA), appendix E
"""


def table_of(kind: str) -> np.ndarray:
    """The 16 values of a table, float32."""
    _, values = TABLES[kind]
    whole = np.array(values, np.float32)
    return whole if len(whole) == 16 else np.concatenate([whole, -whole])


@dataclass(frozen=True, slots=True)
class FromTable:
    """A matrix [rows, columns] of places in a table: `table[place] * scale`, with a scale for each block of a row.

    Attributes:
        numbers: uint8 [rows * columns / 2]; the upper half of a byte comes first.
        scales: float32 [rows * columns / block].
        rows: Rows of the matrix.
        columns: Columns of the matrix, which are whole blocks.
        block: Numbers that share a scale.
        kind: The table.
    """

    numbers: np.ndarray
    scales: np.ndarray
    rows: int
    columns: int
    block: int
    kind: str

    def restored(self) -> torch.Tensor:
        """The matrix that the places stand for, float32 [rows, columns]."""
        places = np.stack([self.numbers >> 4, self.numbers & 15], -1).reshape(-1, self.block)
        return torch.from_numpy((table_of(self.kind)[places] * self.scales[:, None]).reshape(self.rows, self.columns))

    def stands_for(self, matrix: np.ndarray) -> bool:
        """Return True if the places stand for the very values of a matrix."""
        return np.array_equal(self.restored().numpy(), matrix)


Packed = FewBits | FromTable
"""A weight in few bits."""
