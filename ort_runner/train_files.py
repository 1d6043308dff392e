"""The files beside the model of a training step: of the same save as the model, also while another one is saved."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fxport.ort_runner.train_inputs import RefusedInput

T = TypeVar("T")

SAVED = "fxport.save"
"""Key of the metadata of a step and of the files beside it: the number of the save that all of them are of."""

STATE_SUFFIX, EVALUATION_SUFFIX = ".state.safetensors", ".evaluate.onnx"


def opened_beside(step: Path, suffix: str, save: str | None, read: Callable[[Path], tuple[T, str | None]]) -> T:
    """Read the file beside a step.

    Args:
        step: The model.
        suffix: What the name of the file has for that of the model.
        save: The number of the model's save; None of an earlier version.
        read: Opens a file, and returns what is in it with the number of its save, None for a file without.

    Raises:
        FileNotFoundError: There is none.
        RefusedInput: It is of another save: the model was replaced after it was opened.
    """
    last: FileNotFoundError | None = None
    for path in candidates(step, suffix, save):
        try:
            found, number = read(path)
        except FileNotFoundError as error:
            last = error
            continue
        if None not in (save, number) and number != save:
            raise RefusedInput(f"'{path}' is not of the save of '{step}' that is open; open the step again")
        return found
    assert last is not None
    raise last


def candidates(step: Path, suffix: str, save: str | None) -> list[Path]:
    """The paths that the file may have: with the number until the save has ended, and then its own.

    A link to a step has its files beside it, or beside the step.
    """
    real = Path(os.path.realpath(step))
    staged = [] if save is None else [real.with_suffix(f".{save}{suffix}")]
    return [*staged, real.with_suffix(suffix), step.with_suffix(suffix)]
