"""Shared generators of random numbers that are not PyTorch's: Python's and NumPy's."""

from __future__ import annotations

import pickle
import random
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator: how its state is read, and how a draw from it is written in code."""

    read: Callable[[], object]
    written: re.Pattern[str]

    @property
    def state(self) -> bytes:
        """The state in bytes, which are made and compared in no time, and hold whatever a generator keeps."""
        return pickle.dumps(self.read())


SHARED: Mapping[str, Generator] = {
    "random": Generator(random.getstate, re.compile(r"random\.\w+")),
    "numpy.random": Generator(
        lambda: sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None,
        re.compile(r"(np|numpy)\.random\.\w+"),
    ),
}
"""By the name of their module."""
