"""Random numbers from a seed, by plain integer arithmetic: the same in PyTorch and in ONNX Runtime, bit by bit.

A counter-based generator: the number at a position is a hash of (seed, which call, position). The hash is "lowbias32"
of Christopher Wellons' Hash Prospector (https://nullprogram.com/blog/2018/07/31/), on 32-bit words held in int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

WORD = 0xFFFFFFFF
BITS = 24
"""Random bits of a number in [0, 1): as many as float32 holds exactly."""

GOLDEN = 0x9E3779B9
"""2^32 divided by the golden ratio: sets the streams of successive calls far apart."""


def hashed(x: torch.Tensor) -> torch.Tensor:
    """A 32-bit hash of 32-bit words, both as int64."""
    x = (x ^ (x >> 16)) * 0x7FEB352D & WORD
    x = (x ^ (x >> 15)) * 0x846CA68B & WORD
    return x ^ (x >> 16)


def uniform(seed: torch.Tensor, stream: int, like: torch.Tensor) -> torch.Tensor:
    """Numbers in [0, 1) of the shape of `like`, as float32. `seed` is an int64 scalar, `stream` tells calls apart."""
    position = torch.arange(like.numel(), dtype=torch.int64, device=like.device).reshape(like.shape)
    key = hashed(hashed(seed & WORD) + (stream * GOLDEN & WORD) & WORD)
    word = hashed(hashed(position & WORD) ^ key)
    return (word >> (32 - BITS)).to(torch.float32) * 2.0**-BITS


class SeededRandom(TorchDispatchMode):
    """While it is on, random ops of PyTorch draw from a seed instead of the global generator.

    It stands below autograd, so gradients are those of the ops themselves. Ops that are not in the table draw as ever.
    """

    def __init__(self, seed: torch.Tensor) -> None:
        super().__init__()
        self.seed = seed
        self.stream = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        rule = RULES.get(func)
        return func(*args, **(kwargs or {})) if rule is None else rule(self.draw, *args, **(kwargs or {}))

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        """The next numbers in [0, 1), of the shape of `like`."""
        self.stream += 1
        return uniform(self.seed, self.stream, like)


class GivenRandom(SeededRandom):
    """While it is on, random ops take the next of some numbers in [0, 1) that were drawn for them."""

    def __init__(self, numbers: Sequence[torch.Tensor]) -> None:
        super().__init__(torch.tensor(0))
        self.numbers = numbers

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        self.stream += 1
        if self.stream > len(self.numbers):
            raise ValueError(f"the step draws more often than the {len(self.numbers)} times that were seen before")
        return self.numbers[self.stream - 1]


class RecordedRandom(SeededRandom):
    """While it is on, random ops draw from the global generator, and `numbers` has what they drew, in [0, 1)."""

    def __init__(self) -> None:
        super().__init__(torch.tensor(0))
        self.numbers: list[torch.Tensor] = []

    def draw(self, like: torch.Tensor) -> torch.Tensor:
        self.numbers.append(torch.rand(like.shape, device=like.device))
        return self.numbers[-1]


Draw = Callable[[torch.Tensor], torch.Tensor]


def _native_dropout(
    draw: Draw, x: torch.Tensor, p: float, train: bool | None = True
) -> tuple[torch.Tensor, torch.Tensor]:
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = draw(x) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return x * kept.to(x.dtype) * scale, kept


def _bernoulli(draw: Draw, x: torch.Tensor, p: float | None = None, *, generator: Any = None) -> torch.Tensor:
    return (draw(x) < (x if p is None else p)).to(x.dtype)


def _bernoulli_(draw: Draw, x: torch.Tensor, p: float = 0.5, *, generator: Any = None) -> torch.Tensor:
    return x.copy_(
        (draw(x) >= 1 - p).to(x.dtype)
    )  # as native_dropout keeps: PyTorch calls this with 1 - p in its place


def _uniform_(
    draw: Draw, x: torch.Tensor, start: float = 0.0, end: float = 1.0, *, generator: Any = None
) -> torch.Tensor:
    return x.copy_(draw(x) * (end - start) + start)


def _rand_like(draw: Draw, x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return draw(x).to(dtype or x.dtype)


def _rand(draw: Draw, size: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    return draw(torch.empty(size, device=options.get("device"))).to(dtype or torch.get_default_dtype())


def _normal(draw: Draw, like: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958."""
    radius = torch.sqrt(-2 * torch.log1p(-draw(like)))
    return radius * torch.cos(2 * math.pi * draw(like))


def _normal_(
    draw: Draw, x: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
) -> torch.Tensor:
    return x.copy_(_normal(draw, x) * std + mean)


def _randn_like(draw: Draw, x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
    return _normal(draw, x).to(dtype or x.dtype)


def _randn(draw: Draw, size: Sequence[int], *, dtype: torch.dtype | None = None, **options: Any) -> torch.Tensor:
    return _normal(draw, torch.empty(size, device=options.get("device"))).to(dtype or torch.get_default_dtype())


RULES: Mapping[Any, Callable[..., Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli_.float: _bernoulli_,
    aten.uniform_.default: _uniform_,
    aten.rand.default: _rand,
    aten.rand_like.default: _rand_like,
    aten.normal_.default: _normal_,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn_like,
}
"""Random ops of PyTorch, and how each draws from [0, 1)."""
