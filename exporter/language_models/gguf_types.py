"""Types of weights in GGUF files that are taken as they are, by the names of ggml.

https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fxport.exporter.language_models.few_bits import FewBits, few_bits_of

BLOCK = 32
"""Numbers that share a scale, but for Q6_K."""

GROUPS, GROUP = 8, 256
"""Blocks of 32 that share the scale of their scales, and their numbers."""

LIFTED = 112
"""Added to numbers of 5 bits without a sign, which are stored in 8: their middle is that of 8 bits then."""


def _plain(bits: int, *, signed: bool) -> Callable[[np.ndarray], FewBits]:
    """The reader of blocks of a scale, a number that is added where they have no sign, and numbers of 4 or 5 bits.

    Number i is the lower half of byte i, number 16 + i the upper one; fifth bits are together, before these.
    """

    def read(data: np.ndarray) -> FewBits:
        scales, offsets, high, low = _cut(data, 2, 0 if signed else 2, 0 if bits == 4 else 4, BLOCK // 2)
        numbers = _halves(low, BLOCK // 2)
        if bits == 5:
            numbers |= np.unpackbits(high, axis=-1, bitorder="little") << 4
        added = None if signed else _halfs(offsets)[..., 0]
        return _lifted(numbers, _halfs(scales)[..., 0], added, bits, signed=signed)

    return read


def _q8_0(data: np.ndarray) -> FewBits:
    """Blocks of a scale and 32 bytes with a sign."""
    scales, numbers = _cut(data, 2, BLOCK)
    return few_bits_of((numbers ^ 128).reshape(len(data), -1), _halfs(scales)[..., 0], None, 8, BLOCK)


def _k(bits: int) -> Callable[[np.ndarray], FewBits]:
    """The reader of eight blocks with scales and minima of 6 bits, which a scale each belongs to; 4 or 5 bits.

    The numbers of two blocks are the halves of 32 bytes; a byte has the fifth bits of one number of each block.
    """

    def read(data: np.ndarray) -> FewBits:
        both, packed, high, low = _cut(data, 4, 12, 0 if bits == 4 else BLOCK, GROUP // 2)
        scale, least = np.split(_halfs(both), 2, -1)
        one, two, rest = np.split(packed, 3, -1)
        scales = np.concatenate([one & 63, (rest & 15) | ((one >> 2) & 48)], -1).astype(np.float32)
        minima = np.concatenate([two & 63, (rest >> 4) | ((two >> 2) & 48)], -1).astype(np.float32)
        numbers = _halves(low, BLOCK)
        if bits == 5:
            fifth = (high[..., None, :] >> np.arange(GROUPS, dtype=np.uint8)[:, None]) & 1
            numbers |= fifth.reshape(numbers.shape) << 4
        rows = (len(data), -1)
        return _lifted(numbers, (scale * scales).reshape(rows), -(least * minima).reshape(rows), bits, signed=False)

    return read


def _q6_k(data: np.ndarray) -> FewBits:
    """Sixteen blocks of 16 numbers of 6 bits: halves of bytes, pairs of upper bits, scales of 8 bits, and theirs."""
    low, high, packed, scale = _cut(data, GROUP // 2, GROUP // 4, 16, 2)
    pairs = (high.reshape(*high.shape[:-1], 2, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None]) & 3
    numbers = _halves(low, 64) | (pairs.reshape(*low.shape[:-1], -1) << 4)
    scales = (_halfs(scale) * packed.view(np.int8).astype(np.float32)).reshape(len(data), -1)
    return few_bits_of((numbers + (128 - 32)).reshape(len(data), -1), scales, None, 8, 16)


READERS: Mapping[str, Callable[[np.ndarray], FewBits]] = {
    "Q4_0": _plain(4, signed=True),
    "Q4_1": _plain(4, signed=False),
    "Q5_0": _plain(5, signed=True),
    "Q5_1": _plain(5, signed=False),
    "Q8_0": _q8_0,
    "Q4_K": _k(4),
    "Q5_K": _k(5),
    "Q6_K": _q6_k,
}
"""Types that are taken as they are; numbers of 5 and 6 bits are stored in 8."""


def _cut(data: np.ndarray, *sizes: int) -> list[np.ndarray]:
    """The bytes [rows, blocks, size] of the parts of which a block consists."""
    whole = np.ascontiguousarray(data).reshape(data.shape[0], -1, sum(sizes))
    return np.split(whole, np.cumsum(sizes[:-1]), -1)


def _halfs(data: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(data).view("<f2").astype(np.float32)


def _halves(data: np.ndarray, size: int) -> np.ndarray:
    """The lower halves of `size` bytes, then their upper halves, and so on; [..., 2 * bytes]."""
    bytes_of = data.reshape(*data.shape[:-1], -1, size)
    return np.concatenate([bytes_of & 15, bytes_of >> 4], -1).reshape(*data.shape[:-1], -1)


def _lifted(numbers: np.ndarray, scales: np.ndarray, offsets: np.ndarray | None, bits: int, *, signed: bool) -> FewBits:
    """Numbers of 4 bits as they are, and those of 5 in 8."""
    rows = numbers.reshape(len(numbers), -1)
    if bits == 5:
        rows = rows + np.uint8(LIFTED)
    first = LIFTED if bits == 5 else 0
    zeros = None if signed else np.full(scales.shape, first, np.uint8)
    return few_bits_of(rows, scales, zeros, 4 if bits == 4 else 8, BLOCK, offsets)
