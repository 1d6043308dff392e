"""Weights of linear layers in 4 or 8 bits, in blocks with a scale each, as `MatMulNBits` of ONNX Runtime takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import torch

from fxport.exporter.language_models.mapped_weights import folder_of_file, in_file

FACTORS = (".lora_A.", ".lora_B.")
"""Parts of the names of the two factors of LoRA beside a weight."""

BITS: Mapping[str, int] = {"int4": 4, "int8": 8}
AT_ONCE = 1 << 18
"""Numbers of a matrix that are computed at once."""

SCALES: Mapping[torch.dtype, type[np.generic]] = {torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}
"""Types of the scales of matrices in half precision; those of others are float32."""

BLOCKS = (16, 32, 64, 128, 256)
"""Numbers of a row that share a scale; ONNX Runtime's kernels take these."""


@dataclass(frozen=True, slots=True)
class FewBits:
    """A matrix [rows, columns] in few bits: `(number - zero) * scale + offset`, with one of each for a block of a row.

    Attributes:
        numbers: uint8 [rows, blocks, block * bits / 8]; of 4 bits, the lower half of a byte comes first.
        scales: float32, or the half precision of what is multiplied, [rows, blocks].
        columns: Columns of the matrix; the last block is filled up.
        bits: 4 or 8.
        block: Numbers that share a scale.
        zeros: uint8 [rows, blocks]; None where all are `2 ** (bits - 1)`.
        offsets: float32 [rows, blocks]; None where all are 0. The last block is a whole one then.
    """

    numbers: np.ndarray
    scales: np.ndarray
    columns: int
    bits: int
    block: int
    zeros: np.ndarray | None = None
    offsets: np.ndarray | None = None

    @property
    def packed_zeros(self) -> np.ndarray | None:
        """The zeros as `MatMulNBits` takes them, uint8 [rows, blocks * bits / 8]: of 4 bits, two to a byte."""
        if self.zeros is None or self.bits != 4:
            return self.zeros
        even = np.pad(self.zeros, ((0, 0), (0, self.zeros.shape[1] % 2)))
        return even[:, 0::2] | (even[:, 1::2] << 4)

    @property
    def centered_offsets(self) -> np.ndarray | None:
        """The offsets where all zeros are `2 ** (bits - 1)`: sums cancel less than with those of numbers from 0."""
        if self.offsets is None or self.zeros is None:
            return self.offsets
        distance = np.float32(1 << (self.bits - 1)) - self.zeros.astype(np.float32)
        return distance * self.scales + self.offsets

    def with_rows(self, order: np.ndarray) -> FewBits:
        """The matrix with its rows in another order."""
        parts = {name: getattr(self, name) for name in ("numbers", "scales", "zeros", "offsets")}
        return replace(self, **{name: part[order] for name, part in parts.items() if part is not None})

    def restored(self) -> torch.Tensor:
        """The matrix that the numbers stand for, computed in float32 [rows, columns]."""
        whole = np.empty((len(self.scales), self.columns), np.float32)
        for rows in rows_of(whole.shape):
            whole[rows] = self._restored(rows)
        return torch.from_numpy(whole)

    def stands_for(self, matrix: np.ndarray) -> bool:
        """Return True if the numbers stand for the very values of a matrix, rounded to its type."""
        shape = (len(self.scales), self.columns)
        if matrix.shape != shape:
            return False
        if matrix.flags.f_contiguous and not matrix.flags.c_contiguous:
            strips = rows_of((self.scales.shape[1], shape[0] * self.block))
            return all(self._stands_for_columns(matrix, blocks) for blocks in strips)
        return all(np.array_equal(self._restored(rows).astype(matrix.dtype), matrix[rows]) for rows in rows_of(shape))

    def _stands_for_columns(self, matrix: np.ndarray, blocks: slice) -> bool:
        """The same of the columns in some blocks, of a matrix that lies in memory column by column.

        They are copied row by row first: comparing across them takes four times as long.
        """
        columns = slice(blocks.start * self.block, blocks.stop * self.block)
        held = np.ascontiguousarray(matrix[:, columns])
        return np.array_equal(self._restored(slice(None), blocks).astype(matrix.dtype), held)

    def _restored(self, rows: slice, blocks: slice = slice(None)) -> np.ndarray:
        numbers, scales = self.numbers[rows, blocks], self.scales[rows, blocks]
        if self.bits == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], axis=-1)
        whole = numbers.reshape(*scales.shape, self.block).astype(np.float32)
        whole -= np.float32(1 << (self.bits - 1)) if self.zeros is None else self.zeros[rows, blocks, None]
        whole *= scales[..., None]
        if self.offsets is not None:
            whole += self.offsets[rows, blocks, None]
        return whole.reshape(len(scales), -1)[:, : self.columns - (blocks.start or 0) * self.block]


def rows_of(shape: Sequence[int]) -> Iterator[slice]:
    """Slices of the rows of a matrix, of so few numbers that they stay in the caches of a processor."""
    step = max(1, AT_ONCE // max(1, shape[1]))
    return (slice(start, start + step) for start in range(0, shape[0], step))


def in_few_bits(weight: torch.Tensor, bits: int, block: int) -> FewBits:
    """Round a matrix to few bits: the number farthest from 0 in each block is the lowest there is, and exact.

    Of a matrix in half precision it is as exact as a scale in that type, which `MatMulNBits` asks for.
    """
    matrix = weight.detach().to(torch.float32).cpu().numpy()
    rows, columns = matrix.shape
    blocks, middle = -(-columns // block), 1 << (bits - 1)
    packed = np.empty((rows, blocks, block * bits // 8), np.uint8)
    scales = np.empty((rows, blocks), SCALES.get(weight.dtype, np.float32))
    for some in rows_of(matrix.shape):
        padded = matrix[some]
        if columns % block:
            padded = np.pad(padded, ((0, 0), (0, blocks * block - columns)))
        grouped = padded.reshape(-1, blocks, block)
        most, least = _extremes(grouped)
        scales[some] = np.where(most >= -least, most, least) / np.float32(-middle)
        scale = scales[some].astype(np.float32)
        inverse = np.divide(1, scale, out=np.zeros_like(most), where=scale != 0)
        numbers = grouped * inverse[..., None]
        np.rint(numbers, out=numbers)
        numbers += middle
        packed[some] = _packed(np.clip(numbers, 0, 2 * middle - 1, out=numbers).astype(np.uint8), bits)
    return FewBits(packed, scales, columns, bits, block)


def few_bits_of(
    numbers: np.ndarray,
    scales: np.ndarray,
    zeros: np.ndarray | None,
    bits: int,
    block: int,
    offsets: np.ndarray | None = None,
) -> FewBits:
    """A matrix of numbers that are there already.

    Args:
        numbers: uint8 [rows, columns], whole blocks.
        scales: [rows, blocks].
        zeros: uint8 [rows, blocks], or None for `2 ** (bits - 1)`.
        bits: 4 or 8.
        block: Numbers that share a scale.
        offsets: float32 [rows, blocks], or None for 0.
    """
    rows, columns = numbers.shape
    if zeros is not None and (zeros == 1 << (bits - 1)).all():
        zeros = None
    packed = _packed(numbers.reshape(rows, -1, block), bits)
    return FewBits(packed, np.ascontiguousarray(scales, np.float32), columns, bits, block, zeros, offsets)


def _packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Two numbers of 4 bits to a byte, the first one in its lower half; those of 8 bits as they are."""
    whole = np.ascontiguousarray(numbers)
    if bits != 4:
        return whole
    pairs = whole.view("<u2")  # as one number, which costs an eighth of picking every other byte
    return (pairs | pairs >> 4).astype(np.uint8)


def _extremes(grouped: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest and the least number of each block [..., block], by PyTorch: NumPy takes eight times as long."""
    held = torch.from_numpy(grouped)
    return held.amax(-1).numpy(), held.amin(-1).numpy()


def is_factor(name: str) -> bool:
    """Return True for the name of a factor of LoRA beside a weight."""
    return any(part in name for part in FACTORS)


def linear_weights(model: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """The weights of linear layers by all their names; a tied one has several. Factors of LoRA are none."""
    linear = {
        id(module.weight) for module in model.modules() if type(module) is torch.nn.Linear and module.weight.dim() == 2
    }
    named = model.named_parameters(remove_duplicate=False)
    return {name: each for name, each in named if id(each) in linear and not is_factor(name)}


@contextmanager
def rounded(model: torch.nn.Module, bits: int, block: int, *, restore: bool = True) -> Iterator[dict[str, FewBits]]:
    """Give a model the values of its linear weights in few bits, and put the old ones back at the end.

    A weight that is also a table of embeddings is rounded where its rows are whole blocks, since one copy serves both.
    Without `restore` the old values are not kept, which halves the memory of a model that nobody else has; weights that
    are mapped from a file stay so, and their numbers are in files too.

    Yields:
        The weights in few bits, by all their names.
    """
    weights = linear_weights(model)
    tables = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    chosen = {
        id(weight): weight for weight in weights.values() if id(weight) not in tables or weight.shape[1] % block == 0
    }
    before = {key: weight.data for key, weight in chosen.items()} if restore else {}
    made: dict[int, FewBits] = {}
    try:
        for key, weight in chosen.items():
            made[key] = in_few_bits(weight, bits, block)
            values = made[key].restored().to(weight.dtype)
            if not restore and (folder := folder_of_file(weight)) is not None:
                weight.data.copy_(values)
                numbers, scales = (in_file(each, folder) for each in (made[key].numbers, made[key].scales))
                made[key] = replace(made[key], numbers=numbers, scales=scales)
            else:
                weight.data = values
        yield {name: made[id(weight)] for name, weight in weights.items() if id(weight) in made}
    finally:
        for key, values in before.items():
            chosen[key].data = values
