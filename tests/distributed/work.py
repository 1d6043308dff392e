"""What the ranks of a test do; functions here run in processes of their own."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fxport import export
from tests.distributed.models import WAYS, made

Case = tuple[str, str, bool]
"""A way, a model, and whether in bfloat16."""


def export_cases(folder: str, cases: Sequence[Case]) -> dict[Case, Any]:
    """Exports each case to `<folder>/<way>-<model>-<low>.onnx`.

    Gives what the wrapped model itself returns before the export, or the exception of the case as text.
    """
    return {case: _attempt(folder, case) for case in cases}


def _attempt(folder: str, case: Case) -> Any:
    try:
        return _export_case(folder, case)
    except Exception:  # noqa: BLE001  # told to the test
        return traceback.format_exc()


def _export_case(folder: str, case: Case) -> torch.Tensor:
    way, name, low = case
    model, x = made(name)
    wrapped = WAYS[way].wrap(model, name, low)
    given = given_to(case, x)
    with torch.no_grad():
        eager = wrapped(given)
    eager = eager.full_tensor() if hasattr(eager, "full_tensor") else eager
    program = export(wrapped, (given,))
    if way != "ddp" or dist.get_rank() == 0:
        program.save(Path(folder, file_of(case)))
    return eager


def given_to(case: Case, x: torch.Tensor) -> torch.Tensor:
    """The input of a case: in bfloat16 where no policy casts it."""
    way, _, low = case
    return x.bfloat16() if low and not WAYS[way].policy and x.is_floating_point() else x


def file_of(case: Case) -> str:
    way, name, low = case
    return f"{way}-{name}-{'low' if low else 'full'}.onnx"
