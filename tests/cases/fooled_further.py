"""Further models made to fool a validation: scales, ties, edges of sizes, caches, and state out of sight."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.cases.fooled import COMPARES, REPEATS, SHOWS, Fooled
from tests.cases.subtle import Calls

TIED = torch.zeros(3, 40)
LONG = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
ROWS = ({0: torch.export.Dim.DYNAMIC},)


class Steps:
    """A plain object that counts."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.taken += 1
        return x * self.taken


def remembering() -> Callable[[Tensor], Tensor]:
    """A function that keeps the result for each shape, whatever the values."""
    known: dict[torch.Size, Tensor] = {}

    def run(x: Tensor) -> Tensor:
        if x.shape not in known:
            known[x.shape] = torch.sin(x)
        return known[x.shape]

    return run


def counted_in_default(x: Tensor, calls: list[int] = []) -> Tensor:  # noqa: B006  # it is what is tried
    calls.append(1)
    return x * len(calls)


@functools.cache
def positions(length: int) -> Tensor:
    return torch.arange(length, dtype=torch.float32)


class Averaged(nn.Module):
    """A running mean in a buffer, which the ONNX model has as a state."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


class Counted(nn.Module):
    """A counter in a buffer, by which every third call differs."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return torch.where(self.calls % 3 == 0, -x, x)


class Twentieth(nn.Module):
    """A list of calls that shows in the twentieth call only."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen = [*self.seen, 1][-20:]
        return x * 3 if len(self.seen) == 20 else x * 2


class OnlyBias(nn.Module):
    """A last layer whose weights are zero, as that of a detector before its training; its bias is not."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)
        nn.init.zeros_(self.last.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.sin(x))


def f(function: Callable[..., Any]) -> Callable[[], nn.Module]:
    return lambda: Calls(function)


FURTHER: dict[str, Fooled] = {
    "a counter in an object": Fooled(lambda: Calls(Steps()), {"output": REPEATS}, noted="FXP1018"),
    "a counter in a default": Fooled(f(counted_in_default), {"output": REPEATS}, noted="FXP1018"),
    "a cache of results by shape": Fooled(lambda: Calls(remembering()), {"output": REPEATS}, noted="FXP1018"),
    "a twentieth call that differs": Fooled(Twentieth, {"output": REPEATS}, noted="FXP1018"),
    "a bias alone": Fooled(OnlyBias, {"output": SHOWS}, (LONG[:8, :4],)),
    "one complex number": Fooled(f(lambda x: torch.complex(x * 0 + 1, x * 0 + 2)), {"output": SHOWS}),
    "imaginary parts of NaN": Fooled(f(lambda x: torch.complex(x, x * torch.nan)), {"output": SHOWS}),
    "a sum that is always 0": Fooled(f(lambda x: (x - x).sum()), {"output": SHOWS}),
    "subnormal numbers": Fooled(f(lambda x: torch.sin(x) * 1e-39), {"output": SHOWS}),
    "a sine on a million": Fooled(f(lambda x: 1e6 + torch.sin(x)), {"output": COMPARES}, (LONG,)),
    "a sine on a thousand": Fooled(f(lambda x: 1e3 + torch.sin(x)), {}, (LONG,)),
    "a sine beside 1e8": Fooled(f(lambda x: torch.cat([x * 1e8, torch.sin(x)], -1)), {}, (LONG,)),
    "a sigmoid beside pixels": Fooled(f(lambda x: torch.cat([x * 1e4, torch.sigmoid(x * 9)], -1)), {}, (LONG,)),
    "a cached function": Fooled(f(lambda x: x + positions(x.shape[1])), {}),
    "a mean in a buffer": Fooled(Averaged, {}),
    "a counter in a buffer": Fooled(Counted, {}),
    "squares of 1e30": Fooled(f(lambda x: (x * 1e30) ** 2), {}),  # zeros of ours stay zeros
    "squares of 1e-30": Fooled(f(lambda x: (x * 1e-30) ** 2), {"output": SHOWS}),
    "a norm of 1e30": Fooled(f(lambda x: x * 1e30 / (x * 1e30).abs().amax()), {}),
    "a softmax of 1e30": Fooled(f(lambda x: torch.softmax(x * 1e30, -1)), {}),
    "a variance at 1e4": Fooled(f(lambda x: torch.var(x + 1e4, -1)), {}, (LONG,)),
    "what cancels at 1e30": Fooled(
        f(lambda x: (torch.sin(x) * 1e30 + 1.0) - torch.sin(x * (1 + 1e-7)) * 1e30), {"output": COMPARES}, (LONG,)
    ),
    "indices of equal elements": Fooled(f(lambda x: (torch.topk(x, 3)[1], x + torch.arange(40.0))), {}, (TIED,)),
    "halves of what is computed": Fooled(f(lambda x: torch.round(torch.exp(torch.log(x.abs() + 0.5)))), {}),
    "the sign of what cancels": Fooled(f(lambda x: torch.sign(x - x.mean()) * x), {}),
    "one row": Fooled(f(lambda x: x - x.mean(0)), {}, (torch.arange(8.0).reshape(2, 4).sin(),), shapes=ROWS),
    "the spread of one row": Fooled(f(lambda x: x.std(0)), {}, (LONG[:, :4],), shapes=ROWS),
    "a size as a factor": Fooled(f(lambda x: x * x.shape[0]), {}, (LONG[:5],), shapes=ROWS),
}
