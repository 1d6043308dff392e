"""Chains of one to four operators, each from its seed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.fuzz.chains.fields import Draft, values
from tests.fuzz.chains.rows import EXACTLY, FLOATS, INTEGERS, ROUNDING, TAMED

DTYPES = (torch.float32,) * 5 + (torch.float16, torch.int64, torch.int64, torch.int32, torch.bool, torch.uint8)
SHAPES = (
    (), (1,), (4,), (0,), (2, 3), (1, 4), (3, 1), (0, 3), (2, 0), (2, 3, 4), (1, 3, 5), (2, 1, 4), (2, 3, 4, 5),
    (1, 2, 6, 6), (2, 3, 6, 7), (0, 2, 4, 4),
)  # fmt: skip


class Chain(nn.Module):
    """One chain; its constants are buffers, its other tensors inputs."""

    def __init__(self, seed: int, lines: Sequence[str], draft: Draft, exact: bool) -> None:
        super().__init__()
        self.seed, self.lines, self.inputs, self.exact = seed, list(lines), dict(draft.inputs), exact
        for name, constant in draft.constants.items():
            self.register_buffer(name, constant)
        names = ", ".join(self.inputs)
        self.source = f"def forward(self, {names}):\n    x = p = a0\n" + "".join(f"    {line}\n" for line in lines)
        scope: dict[str, Any] = {"torch": torch, "F": F, "math": math}
        exec(compile(f"{self.source}    return x", f"<chain {seed}>", "exec"), scope)  # our own text
        self.call = scope["forward"]

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(self, *inputs)

    def shown(self) -> str:
        """The source, the inputs and the constants."""
        given = {**self.inputs, **dict(self.named_buffers())}
        told = "".join(
            f"{name}: {tensor.dtype} {tuple(tensor.shape)} {tensor.tolist()}\n" for name, tensor in given.items()
        )
        return f"seed {self.seed}\n{self.source}{told}"


def chain_of(seed: int) -> Chain:
    """The chain of a seed; rows that PyTorch refuses are drawn again."""
    random = Random(seed)
    awkward = random.choice((0, 0.1, 0.3))
    draft = Draft(random, awkward)
    shape, dtype = random.choice(SHAPES), random.choice(DTYPES)
    x = values(shape, dtype, random, awkward)
    if random.random() < 0.2 and x.dim() > 1:
        x = values(shape[::-1], dtype, random, awkward).permute(*reversed(range(x.dim())))
    draft.inputs["a0"] = x
    lines: list[str] = []
    exact, previous = True, x
    for _ in range(random.choice((1, 2, 2, 3, 3, 4))):
        line, previous, x, kind = _step(draft, previous, x, exact)
        lines.append(line)
        half = torch.float16 in (x.dtype, previous.dtype)
        exact = exact and kind != ROUNDING and not (kind == EXACTLY and half)
    return Chain(seed, lines, draft, exact)


def _step(draft: Draft, p: Tensor, x: Tensor, exact: bool) -> tuple[str, Tensor, Tensor, int]:
    while True:
        text, kind = draft.random.choice(FLOATS if x.is_floating_point() else INTEGERS)
        if not exact and text not in TAMED:
            continue
        inputs, constants = dict(draft.inputs), dict(draft.constants)
        try:
            line = draft.filled(text, x)
            place = nn.Module()
            for name, constant in draft.constants.items():
                place.register_buffer(name, constant)
            scope = {"torch": torch, "F": F, "math": math, "self": place, "x": x, "p": p, **draft.inputs}
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                y = eval(line, scope)  # our own text
            if isinstance(y, Tensor) and y.numel() < 5000 and y.dtype != torch.complex64:
                return f"p, x = x, {line}", x, y, kind
        except (RuntimeError, IndexError, ValueError, TypeError, AssertionError, AttributeError, Warning, KeyError):
            pass
        draft.inputs, draft.constants = inputs, constants
