"""What a row of the operator suite is. Rows stand in `tests/cases/ops/<family>.py`, in a tuple named CASES."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
F32 = (torch.float32,)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
BOOL = (torch.bool,)
NUMBERS = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32)
ALL = (*FLOATS, *INTS, torch.bool)
COMPLEX = (torch.complex64,)


@dataclass(frozen=True)
class Draw:
    """A tensor to draw: `dtype` None means the dtype that the row varies over. Bounds are of a uniform distribution;
    without them floats are normal, integers from -10 to 10. `values` are taken as they are and tell the shape."""

    shape: tuple[int, ...]
    dtype: torch.dtype | None = None
    low: float | None = None
    high: float | None = None
    values: Any = None
    contiguous: bool = True

    def make(self, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
        dtype = self.dtype or dtype
        if self.values is not None:
            return torch.tensor(self.values, dtype=dtype)
        shape = self.shape if self.contiguous else self.shape[::-1]
        if dtype == torch.bool:
            made = torch.rand(shape, generator=generator) < 0.5
        elif not (dtype.is_floating_point or dtype.is_complex):
            low = self.low if self.low is not None else 0 if dtype in _UNSIGNED else -10
            made = torch.randint(int(low), int(self.high if self.high is not None else 10), shape, generator=generator)
        elif self.low is not None or self.high is not None:
            low, high = self.low or 0.0, 1.0 if self.high is None else self.high
            made = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
        else:
            made = torch.randn(
                shape, generator=generator, dtype=torch.complex128 if dtype.is_complex else torch.float64
            )
        made = made.to(dtype)
        return made if self.contiguous else made.permute(*range(made.dim())[::-1])

    def resized(self, sizes: tuple[int, ...]) -> Draw:
        """The same draw of other sizes; given values stay where the sizes do."""
        return self if sizes == self.shape else Draw(sizes, self.dtype, self.low, self.high, None, self.contiguous)


_UNSIGNED = frozenset({torch.uint8, torch.uint16, torch.uint32, torch.uint64})


def f(*shape: int, low: float | None = None, high: float | None = None) -> Draw:
    """A tensor of the dtype that the row varies over."""
    return Draw(shape, None, low, high)


def i(*shape: int, low: int = 0, high: int = 4, dtype: torch.dtype = torch.int64) -> Draw:
    """A tensor of integers in [low, high), as indices are."""
    return Draw(shape, dtype, low, high)


def b(*shape: int) -> Draw:
    """A tensor of truth values."""
    return Draw(shape, torch.bool)


def v(values: Any, dtype: torch.dtype | None = None) -> Draw:
    """A tensor of these very values."""
    return Draw(tuple(torch.tensor(values).shape), dtype, values=values)


@dataclass(frozen=True, init=False)
class OpCase:
    """One row: an op, its arguments, and over what they vary.

    `vary` gives alternatives of keyword arguments, by name; `dtypes` those of the tensors drawn by `f`. `dynamic` names
    the dims of the tensor arguments, tensors separated by commas ("n 3, n"): names are symbolic sizes, and the model is
    run at a second size of each as well. `opsets` are those beside the default. `compare="shape"` leaves values out, as
    random ops need. `reference` is called in the op's place for what is expected, where the op itself has no kernel on
    the CPU. `results` says how many of the first results are compared, where the others are PyTorch's own affair.
    `since` is the first opset that can express the row; the default is raised to it. `known_gap` is a strict xfail that
    begins with the rule that is reported.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    vary: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    dtypes: tuple[torch.dtype, ...] = F32
    dynamic: str | None = None
    opsets: tuple[int, ...] = (18, 26)
    compare: str = "values"
    tol: Mapping[torch.dtype, tuple[float, float]] = field(default_factory=dict)
    why: str | None = None
    reference: Any = None
    results: int | None = None
    since: int = 1
    known_gap: str | None = None

    def __init__(self, target: Any, *args: Any, **options: Any) -> None:
        fields = {name: options.pop(name) for name in tuple(options) if name in self.__dataclass_fields__}
        defaults = {
            "kwargs": {}, "vary": {}, "dtypes": F32, "dynamic": None, "opsets": (18, 26), "compare": "values",
            "tol": {}, "why": None, "reference": None, "results": None, "since": 1, "known_gap": None,
        }  # fmt: skip
        for name, value in {**defaults, **fields, "target": target, "args": args}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "kwargs", {**self.kwargs, **options})
        if self.tol and not self.why:
            raise ValueError(f"{target}: a tolerance of its own needs a reason in `why`")

    def variants(self) -> Iterator[dict[str, Any]]:
        """Every combination of the varied keyword arguments, with the fixed ones."""
        names = list(self.vary)
        for values in itertools.product(*(self.vary[name] for name in names)):
            yield {**self.kwargs, **dict(zip(names, values, strict=True))}
