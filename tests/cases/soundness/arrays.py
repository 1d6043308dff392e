"""Tensors that share memory with NumPy arrays, and writes to them."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from tests.cases.soundness.case import FLAT, Row, of


class ArrayReadBehindAWrite(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        array = np.zeros(4, dtype=np.float32)
        total = torch.from_numpy(array)
        total += x  # writes to the array
        return torch.tensor(array), total


class ViewOfAnArray(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        array = np.zeros((2, 4), dtype=np.float32)
        row = torch.as_tensor(array[1])[:]
        row.add_(x)  # writes to a row of the array
        return torch.tensor(array), row


class ArrayNotWritten(nn.Module):
    """Read arrays by tensors, write to a copy of one, and to one that nobody else has."""

    def forward(self, x: Tensor) -> Tensor:
        array = np.arange(4, dtype=np.float32)
        table, own = torch.from_numpy(array), torch.tensor(array)
        nobodys = torch.from_numpy(np.ones(4, dtype=np.float32))
        own += x
        nobodys += x
        return x * table + own * nobodys + torch.from_numpy(array * 2)


CASES = of(
    "memory of NumPy",
    Row("an array that is read behind a write", ArrayReadBehindAWrite, FLAT, None, "# writes to the array"),
    Row("a view of an array", ViewOfAnArray, FLAT, None, "# writes to a row of the array"),
    Row("arrays that are not written to", ArrayNotWritten, FLAT),
)
