"""Choices for the fields of rows, such as axes and scalars, and the inputs of chains."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor

NUMBERS = ("0", "1", "-1", "2", "0.5", "-2.5", "3", "-0.0")
SPECIAL = ("math.inf", "-math.inf", "math.nan", "-0.0")
PECULIAR = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-40, 65504.0)


def values(shape: Sequence[int], dtype: torch.dtype, random: Random, awkward: float) -> Tensor:
    """Numbers, of which so large a part is awkward: NaN, infinities, zeros of either sign, ties, extremes."""
    generator = torch.Generator().manual_seed(random.randrange(1 << 30))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    chosen = torch.rand(shape, generator=generator) < awkward
    if dtype.is_floating_point:
        drawn = torch.tensor(PECULIAR, dtype=dtype)[torch.randint(0, len(PECULIAR), shape, generator=generator)]
        plain = torch.randn(shape, generator=generator).to(dtype) * 2
    else:
        limits = torch.iinfo(dtype)
        table = torch.tensor([limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1], dtype=dtype)
        drawn = table[torch.randint(0, len(table), shape, generator=generator)]
        plain = torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=generator).to(dtype)
    return torch.where(chosen, drawn, plain)


@dataclass
class Draft:
    """A chain in the making: what its texts name."""

    random: Random
    awkward: float
    inputs: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Tensor] = field(default_factory=dict)

    def filled(self, text: str, x: Tensor) -> str:
        """The text of a row with its places filled for a tensor; the same name is the same thing within it."""
        known: dict[str, str] = {}

        def one(match: re.Match[str]) -> str:
            name = match[1]
            if name not in known:
                known[name] = FIELDS[name](self, x, known)
            return known[name]

        return re.sub(r"\{(\w+)\}", one, text)

    def constant(self, tensor: Tensor) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = tensor
        return f"self.{name}"

    def given(self, tensor: Tensor) -> str:
        name = f"a{len(self.inputs)}"
        self.inputs[name] = tensor
        return name


Known = dict[str, str]


def _dim(draft: Draft, x: Tensor, known: Known) -> str:
    return str(draft.random.randrange(-x.dim(), x.dim()) if x.dim() else 0)


def _size(x: Tensor, known: Known) -> int:
    """The size of the axis that the row has chosen."""
    return x.shape[int(known["dim"])] if "dim" in known and x.dim() else (x.shape[0] if x.dim() else 1)


def _operand(draft: Draft, x: Tensor, known: Known) -> Tensor:
    shape = [1 if draft.random.random() < 0.25 else size for size in x.shape][draft.random.choice((0, 0, 1)) :]
    return values(shape, x.dtype, draft.random, draft.awkward)


def _nonzero(draft: Draft, x: Tensor, known: Known) -> str:
    """A divisor; of integers neither 0 nor -1, by which PyTorch ends the process for the smallest number."""
    y = _operand(draft, x, known)
    return draft.constant(
        y if x.is_floating_point() or x.dtype == torch.bool else y.where((y != 0) & (y != -1), 3).to(y.dtype)
    )


def _shape(draft: Draft, x: Tensor, known: Known) -> str:
    if x.numel() == 0:
        return draft.random.choice(("(0, 2)", "(-1, 0)")) if draft.random.random() < 0.1 else "(0,)"
    whole = x.numel()
    by = draft.random.choice([n for n in range(1, whole + 1) if whole % n == 0])
    return draft.random.choice((f"({by}, -1)", f"(-1, {by})", f"({by}, {whole // by}, 1)", "(-1,)", "(1, -1)"))


def _perm(draft: Draft, x: Tensor, known: Known) -> str:
    order = list(range(x.dim()))
    draft.random.shuffle(order)
    return str(order)


def _index(draft: Draft, x: Tensor, known: Known, rank: int = 1, size: int | None = None) -> str:
    n = _size(x, known) if size is None else size
    if n == 0:
        raise IndexError
    generator = torch.Generator().manual_seed(draft.random.randrange(1 << 30))
    return draft.constant(torch.randint(0, n, [draft.random.choice((1, 2, 3))] * rank, generator=generator))


def _like_index(draft: Draft, x: Tensor, known: Known) -> str:
    generator = torch.Generator().manual_seed(draft.random.randrange(1 << 30))
    return draft.constant(torch.randint(0, _size(x, known), x.shape, generator=generator))


def _slab(draft: Draft, x: Tensor, known: Known) -> str:
    shape = list(x.shape)
    shape[int(known["dim"])] = 1
    return draft.constant(values(shape, x.dtype, draft.random, draft.awkward))


def _matrix(*sizes: int) -> Callable[[Draft, Tensor, Known], str]:
    """A constant whose sizes that are below 0 are those of the tensor's axes."""

    def make(draft: Draft, x: Tensor, known: Known) -> str:
        shape = [x.shape[size] if size < 0 else size for size in sizes]
        return draft.constant(values(shape, x.dtype, draft.random, 0))

    return make


def _channels(make: Callable[[Tensor], Tensor]) -> Callable[[Draft, Tensor, Known], str]:
    return lambda draft, x, known: draft.constant(make(values([x.shape[1]], x.dtype, draft.random, 0)))


def _kernel(axes: int, *, over: bool = False) -> Callable[[Draft, Tensor, Known], str]:
    def make(draft: Draft, x: Tensor, known: Known) -> str:
        shape = [x.shape[1], 2] if over else [2, x.shape[1]]
        return draft.constant(values([*shape, *[2] * axes], x.dtype, draft.random, 0))

    return make


def _choice(*texts: str) -> Callable[[Draft, Tensor, Known], str]:
    return lambda draft, x, known: draft.random.choice(texts)


FIELDS: dict[str, Callable[[Draft, Tensor, Known], str]] = {
    "dim": _dim,
    "other_dim": _dim,
    "flag": _choice("True", "False"),
    "number": lambda draft, x, known: draft.random.choice(NUMBERS[: None if x.is_floating_point() else 4]),
    "special": _choice(*SPECIAL),
    "small": _choice("1", "2", "3"),
    "integer": _choice("0", "1", "-1", "2"),
    "shift": _choice("0", "1", "3"),
    "repeat": _choice("1", "2"),
    "stride": _choice("1", "2"),
    "half": _choice("0", "1"),
    "dtype": _choice("torch.float32", "torch.float16", "torch.float64"),
    "pads": _choice("(1, 0)", "(0, 2)", "(1, 1, 0, 1)", "(-1, 1)", "(1, 1, 1, 1)", "(0, 0, -1, 2)"),
    "a": lambda draft, x, known: draft.given(_operand(draft, x, known)),
    "b": lambda draft, x, known: draft.given(values(x.shape, x.dtype, draft.random, draft.awkward)),
    "c": lambda draft, x, known: draft.constant(_operand(draft, x, known)),
    "nonzero": _nonzero,
    "mask": lambda draft, x, known: draft.random.choice((draft.given, draft.constant))(_operand(draft, x, known) > 0),
    "shape": _shape,
    "perm": _perm,
    "count": lambda draft, x, known: str(draft.random.randrange(_size(x, known) + 1)),
    "place": lambda draft, x, known: str(draft.random.randrange(-_size(x, known), _size(x, known))),
    "index": _index,
    "index0": lambda draft, x, known: _index(draft, x, known, 1, x.shape[-1]),
    "flat": lambda draft, x, known: _index(draft, x, known, 2, x.numel()),
    "one_index": lambda draft, x, known: draft.constant(torch.tensor([draft.random.randrange(_size(x, known))])),
    "like_index": _like_index,
    "zeros_at": _slab,
    "ones_at": lambda draft, x, known: draft.given(values(x.shape, x.dtype, draft.random, draft.awkward)),
    "sorted": lambda draft, x, known: draft.constant(values([5], x.dtype, draft.random, 0).sort()[0]),
    "matrix": _matrix(-1, -1),
    "square": _matrix(-3, -1, -1),
    "linear": _matrix(2, -1),
    "bias": _matrix(2),
    "last": _matrix(-1),
    "mean": _channels(lambda x: x),
    "var": _channels(lambda x: x.abs() + 0.5),
    "kernel1": _kernel(1),
    "kernel2": _kernel(2),
    "kernel3": _kernel(2, over=True),
    "grid": lambda draft, x, known: draft.constant(
        values([x.shape[0], 3, 4, 2], x.dtype, draft.random, draft.awkward) / 2
    ),
}
