"""The first result in which two runs differ, in words."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from fxport.exporter.capture.sizes.rehearsal import alike

PART = 1e-4
"""Of the largest value of a result that it may be off: both run nearly the same kernels."""

SHOWN = 6
"""Elements of a result that a message shows."""

Results = dict[str, Any]
"""Results of a call by name: outputs, and the values of state and of the call's tensors afterwards."""


def difference(got: Results, want: Results) -> tuple[str, str, str] | None:
    """Return the first result that differs: its name, and both values in words."""
    for name in {**want, **got}:
        if name not in got or name not in want or not alike(got[name], want[name], PART):
            return str(name), *_shown(got.get(name, "nothing"), want.get(name, "nothing"))
    return None


def _shown(got: Any, want: Any) -> tuple[str, str]:
    """Return two values in words: shape and dtype where these differ, else the elements from the first other one on."""
    if not isinstance(got, Tensor) or not isinstance(want, Tensor):
        return str(got), str(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {[*got.shape]}", f"{want.dtype} {[*want.shape]}"
    first = int((got.flatten() != want.flatten()).int().argmax()) if got.numel() else 0
    return _elements(got, first), _elements(want, first)


def _elements(tensor: Tensor, first: int) -> str:
    values = tensor.flatten()[first : first + SHOWN].tolist()
    return " ".join(f"{each:.6g}" if isinstance(each, float) else str(each) for each in values)
