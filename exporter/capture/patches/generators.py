"""Sources of random numbers that all share and that are none of PyTorch's: Python's and NumPy's."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass


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
