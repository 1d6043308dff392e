"""Random numbers from a seed, by plain integer arithmetic: the same in PyTorch and in ONNX Runtime, bit by bit.

A number is told by (seed, which call, position). Positions are in rows. Each row is a run of the multiplicative
congruential generator modulo 2^64 of Steele and Vigna ("Computationally Easy, Spectrally Good Multipliers for
Congruential Pseudorandom Number Generators", 2022, table of 64-bit MCGs), of which the high bits are used: the state
that it begins in, times a constant power of the multiplier. That is one pass over the numbers. Where a row begins is a
hash of (seed, call, row): "lowbias32" of Christopher Wellons' Hash Prospector
(https://nullprogram.com/blog/2018/07/31/) on 32-bit words held in int64, spread over 64 bits.
"""

from __future__ import annotations

import math
from typing import Any

import torch

WORD = 0xFFFFFFFF
BITS = 24
"""Random bits of a number in [0, 1): as many as float32 holds exactly."""

GOLDEN = 0x9E3779B9
"""2^32 divided by the golden ratio: sets the streams of successive calls far apart."""

MULTIPLIER = 0xF1357AEA2E62A9C5 - 2**64
"""Of the generator, as an int64."""

BLOCK = 16
"""Keys of calls that are hashed together: small tensors cost as much as scalars do."""

ROW = 128
"""Numbers of one run of the generator."""

POWERS = [(pow(MULTIPLIER, place, 2**64) ^ 2**63) - 2**63 for place in range(1, ROW + 1)]
"""The multiplier to the powers of 1 and more modulo 2^64, as int64."""


def hashed(x: torch.Tensor) -> torch.Tensor:
    """A 32-bit hash of 32-bit words, both as int64."""
    x = (x ^ (x >> 16)) * 0x7FEB352D & WORD
    x = (x ^ (x >> 15)) * 0x846CA68B & WORD
    return x ^ (x >> 16)


Known = dict[tuple[Any, ...], torch.Tensor]
"""Parts that draws from one seed share: keys of a block of calls, and hashes of rows."""


def key_of(seed: torch.Tensor, stream: int, known: Known) -> torch.Tensor:
    """A 64-bit word of a call. A block of them is computed, which is the same for every call in it.

    `seed` is an int64 scalar, `stream` tells calls apart. `known` holds what was computed from this seed before.
    """
    first = stream - stream % BLOCK
    if ("keys", first) not in known:
        streams = torch.arange(first, first + BLOCK, dtype=torch.int64, device=seed.device)
        known["keys", first] = hashed((hashed(seed & WORD) + streams * GOLDEN) & WORD) * MULTIPLIER
    return known["keys", first][stream % BLOCK]


def rows_of(like: torch.Tensor, known: Known) -> torch.Tensor:
    """A 64-bit word of each row of numbers of a tensor, the same for every call."""
    count = like.numel()
    which = ("rows", str(count), like.device)
    if which not in known:
        spare = isinstance(count, torch.SymInt)  # a dynamic number of rows is not 1, which PyTorch would hold it to
        rows = torch.arange((count + ROW - 1) // ROW + spare, dtype=torch.int64, device=like.device)
        known[which] = hashed(rows & WORD) * MULTIPLIER
    return known[which]


def words(key: torch.Tensor, like: torch.Tensor, known: Known) -> torch.Tensor:
    """Random int64 words of the shape of `like`, all of which are equally likely in their upper bits.

    `key` is the word of the call. `known` holds what was computed from its seed before.
    """
    begun = (rows_of(like, known) ^ key) * MULTIPLIER
    begun = (begun ^ (begun >> 32)) * MULTIPLIER | 1  # odd, for the full period
    if ("powers", like.device) not in known:
        known["powers", like.device] = torch.tensor(POWERS, dtype=torch.int64, device=like.device)
    return (begun[:, None] * known["powers", like.device]).reshape(-1)[: like.numel()].reshape(like.shape)


def uniform(key: torch.Tensor, like: torch.Tensor, known: Known) -> torch.Tensor:
    """Numbers in [0, 1) of the shape of `like`, as float32, from the upper bits of `words`."""
    upper = words(key, like, known) & -(1 << (64 - BITS))
    return upper.to(torch.float32) * 2.0**-64 + 0.5  # each step is exact


def at_least(key: torch.Tensor, like: torch.Tensor, known: Known, limit: float) -> torch.Tensor:
    """Compute as BOOL where the numbers of `uniform` are not below a limit, without making them."""
    whole = math.ceil(limit * 2**BITS) - 2 ** (BITS - 1)
    drawn = words(key, like, known)
    if whole >= 2 ** (BITS - 1):
        return torch.zeros_like(drawn, dtype=torch.bool)
    return drawn >= max(whole, -(2 ** (BITS - 1))) << (64 - BITS)
