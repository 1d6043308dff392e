"""Models made to fool a validation: what they give is no proof of the ONNX model, or is none of its faults."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

CALLS: dict[str, float] = {"count": 0.0}
SCALES: dict[str, Tensor] = {}
CACHE: dict[tuple[int, ...], Tensor] = {}
NUMBERS = itertools.count(1)
SEEN: list[int] = []


class Tally:
    """A counter that no module holds."""

    count = 0


def tallied() -> float:
    Tally.count += 1
    return float(Tally.count)


class GlobalCounter(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        CALLS["count"] += 1
        return x + CALLS["count"]


class CalledCounter(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + tallied()


class Iterator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + next(NUMBERS)


class Clock(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * (time.perf_counter() % 10)


class PythonRandom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * random.random()


class NumpyRandom(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float(np.random.rand())


class AttributeCounter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


class UsedOnce(nn.Module):
    """The first call scales, as an initialization that depends on data does; all others do not."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = False

    def forward(self, x: Tensor) -> Tensor:
        if self.ready:
            return x
        self.ready = True
        return x * 3


class GrowingList(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(len(SEEN))
        return x * len(SEEN)


class EveryTenth(nn.Module):
    """A counter that shows in the tenth call only."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * 3 if self.calls % 10 == 0 else x * 2


class Calibrated(nn.Module):
    """The first call decides on the scale of all others; on its own input that is no difference."""

    def forward(self, x: Tensor) -> Tensor:
        if "scale" not in SCALES:
            SCALES["scale"] = x.abs().max()
        return x / SCALES["scale"]


class NaNOrZero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, torch.nan, 0.0)


class CountedUnread(nn.Module):
    """It counts, but its result does not depend on that."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.sin(x)


class Cached(nn.Module):
    """The second call takes from a cache what the first has put there: the same."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] not in self.known:
            self.known[x.shape[1]] = torch.arange(x.shape[1]).to(x.dtype)
        return x + self.known[x.shape[1]]


class Undefined(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(-x.abs() - 1)


class Hidden(nn.Module):
    """A last layer of zeros, as that of a diffusion model before its training, hides all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 4)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.sin(x))


class Saturated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x.abs() * 1000 + 1000)


class NoRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:0]


class NeverTrue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs() < -1


class OneIsUndefined(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cos(x), torch.log(-x.abs() - 1)


class MaskBeside(nn.Module):
    """A mask that is true everywhere is no reason for doubt beside a result that tells."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cos(x), x.abs() >= 0


class Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 0 + 7


class Cancelled(nn.Module):
    """Difference of two large numbers, of which only rounding errors remain."""

    def forward(self, x: Tensor) -> Tensor:
        return (torch.sin(x) * 1e8 - torch.sin(x) * 1e8 * (1 + 1e-7)) * 2 + torch.cos(x) * 1e-3


class Huge(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) * 1e30


class Minute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x) * 1e-30


class Near(nn.Module):
    """Ties that rounding decides: the index of the largest of equal numbers."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * 0.1 + 1000.0).round()
        return y.argmax(-1), torch.tanh(x)


class Overflown(nn.Module):
    """PyTorch's halves are infinite, and ONNX Runtime computes them in float32."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.half() * 60000).float()


class OverflownWithin(nn.Module):
    """A half is infinite, but no output."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh((x.half().abs() + 1) * 60000 / 60000).float()


class OverflownOnes(nn.Module):
    """Most halves are infinite, and the outputs are integers."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.isinf((x.half().abs() + 1) * 40000 * (1 + x)).long()


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


class OtherMemory(nn.Module):
    """It gives a buffer other memory, which in float64 has another type."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.total.data = self.total.data + x.mean()
        return x + self.total


class Exchanged(nn.Module):
    """It exchanges two buffers."""

    first: Tensor
    second: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.ones(4))
        self.register_buffer("second", torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        self.first, self.second = self.second, self.first + x.mean()
        return x * self.first


class Refused(nn.Module):
    """It fails in float64 after it has written."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + x.mean()
        if x.dtype == torch.float64:
            raise TypeError("float32 only")
        return x + self.total


@dataclass(frozen=True)
class Fooled:
    """A model and what is to be said of it: the rules of its warnings, by the outputs that are not validated. `shapes`
    are its dynamic shapes."""

    model: Callable[[], nn.Module]
    doubts: dict[str, str]
    args: tuple[Any, ...] = ()
    noted: str = ""
    shapes: Any = None

    @property
    def call(self) -> tuple[Any, ...]:
        return self.args or (torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),)


REPEATS, SHOWS, COMPARES = "FXP5009", "FXP5010", "FXP5011"
LARGE = (torch.randn(20, 30, generator=torch.Generator().manual_seed(0)),)

FOOLED: dict[str, Fooled] = {
    "a counter in a global dict": Fooled(GlobalCounter, {"output": REPEATS}, noted="FXP1018"),
    "a counter in a class": Fooled(CalledCounter, {"output": REPEATS}, noted="FXP1018"),
    "a counter in an attribute": Fooled(AttributeCounter, {"output": REPEATS}, noted="FXP1018"),
    "an iterator": Fooled(Iterator, {"output": REPEATS}, noted="FXP1018"),
    "the time": Fooled(Clock, {"output": REPEATS}, noted="FXP1029"),
    "Python's random numbers": Fooled(PythonRandom, {"output": REPEATS}, noted="FXP1019"),
    "NumPy's random numbers": Fooled(NumpyRandom, {"output": REPEATS}, noted="FXP1019"),
    "a first call that differs": Fooled(UsedOnce, {"output": REPEATS}, noted="FXP1018"),
    "a list that grows": Fooled(GrowingList, {"output": REPEATS}, noted="FXP1018"),
    "a tenth call that differs": Fooled(EveryTenth, {"output": REPEATS}, noted="FXP1018"),
    "a global made from the first input": Fooled(Calibrated, {"output": REPEATS}, noted="FXP1018"),
    "NaN or zero": Fooled(NaNOrZero, {"output": SHOWS}),
    "NaN everywhere": Fooled(Undefined, {"output": SHOWS}),
    "a last layer of zeros": Fooled(Hidden, {"output": SHOWS}),
    "a saturated sigmoid": Fooled(Saturated, {"output": SHOWS}),
    "no rows": Fooled(NoRows, {"output": SHOWS}),
    "a test that never holds": Fooled(NeverTrue, {"output": SHOWS}),
    "one output of two is NaN": Fooled(OneIsUndefined, {"output.1": SHOWS}),
    "a constant": Fooled(Constant, {"output": SHOWS}),
    "nothing but rounding errors": Fooled(Cancelled, {"output": COMPARES}, LARGE),
    "a half that overflows": Fooled(Overflown, {"output": COMPARES}),
    "a half that overflows on the way": Fooled(OverflownWithin, {"output": COMPARES}),
    "a half that overflows in front of integers": Fooled(OverflownOnes, {"output": COMPARES}),
    "a counter that nothing depends on": Fooled(CountedUnread, {}),
    "a cache": Fooled(Cached, {}, noted="FXP1016"),
    "a mask beside a result": Fooled(MaskBeside, {}),
    "1e30": Fooled(Huge, {}),
    "1e-30": Fooled(Minute, {}),
    "near ties": Fooled(Near, {}),
    "a branch": Fooled(Branching, {}),
    "the same branch once more": Fooled(Branching, {}),
}

TOUCHED = (OtherMemory, Exchanged, Refused, GlobalCounter, Cached, GrowingList)
"""Models with a state that a run changes."""
