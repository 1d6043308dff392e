"""Run examples/digits.py on pictures that need no scikit-learn: `python -m tests.cases.drawn_digits ARGUMENT…`."""

import runpy
import sys
from pathlib import Path

import numpy as np

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits.py"


def drawn() -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(0)
    targets = numbers.integers(0, 10, 1040)
    images = numbers.random((10, 64))[targets] + numbers.normal(size=(1040, 64)) / 16
    return images.astype(np.float32).reshape(-1, 1, 8, 8), targets


if __name__ == "__main__":
    example = runpy.run_path(str(EXAMPLE))
    example["main"].__globals__["digits"] = drawn
    example["main"](sys.argv[1:])
