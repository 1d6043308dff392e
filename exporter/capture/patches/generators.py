"""Sources of random numbers that are none of PyTorch's: Python's, NumPy's, and those that a layer keeps for itself."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Generator:
    """What tells the state of a generator, and how a draw from it is written."""

    read: Callable[[], object]
    written: re.Pattern[str]

    @property
    def state(self) -> str:
        return repr(self.read())


SHARED: Mapping[str, Generator] = {
    "random": Generator(random.getstate, re.compile(r"random\.\w+")),
    "numpy.random": Generator(
        lambda: sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None,
        re.compile(r"(np|numpy)\.random\.\w+"),
    ),
}
"""By the name of their module."""


def generators_of(model: torch.nn.Module) -> dict[str, Generator]:
    """Those that all share, and those of the model's layers: "layer.draws"."""
    return {**SHARED, **dict(_kept(model))}


def _kept(model: torch.nn.Module) -> Iterator[tuple[str, Generator]]:
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if (read := _reader(value)) is not None:
                yield f"{path}.{key}" if path else key, Generator(read, re.compile(rf"self\.{key}\.\w+"))


def _reader(value: Any) -> Callable[[], object] | None:
    """What tells the state of a random.Random, or of a Generator or RandomState of NumPy; None for anything else."""
    if isinstance(value, random.Random):
        return value.getstate
    numpy: Any = sys.modules.get("numpy.random")  # a model that has its generators has loaded it
    if numpy is not None and isinstance(value, numpy.RandomState):
        return value.get_state
    if numpy is not None and isinstance(value, numpy.Generator):
        return lambda: value.bit_generator.state
    return None
