"""Subtle faults are found: what is wrong for few values, at few sizes, or by little; and what is sound is no fault."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from fxport import ExportError
from fxport.diagnostics import Log
from fxport.exporter.pipeline.options import Options
from fxport.exporter.validation.validated import export_and_validate
from tests.cases.subtle import SUBTLE as FIRST
from tests.cases.subtle import Subtle
from tests.cases.subtle_further import FURTHER

SUBTLE = {**FIRST, **FURTHER}
SAMPLE = (
    *FURTHER,
    "sigmoid x 1.3 in bfloat16",
    "silu x 1.05 in float16",
    "mean over the other size",
    "halves rounded up",
    "negative index",
    "log of 1 + x",
    "softmax without maximum",
)
INEXACT = ("sigmoid x 1.002 beside 0", "elu x 1.0001", "1e-4 more before elu")
"""Faults beside kernels that are inexact beside 0."""

HARD = ("NaN lost by maximum", "large integers by float", "infinity less infinity", "infinity that stays")


def is_found(row: Subtle, folder: Path, *, hard: bool = False, sound: bool = False) -> bool:
    """Export with the fault, or without it, and validate."""
    torch.manual_seed(0)
    model, log = row.model().eval(), Log()
    options = Options(lowerings={} if sound else row.lowerings())
    shapes = None if row.dynamic is None else (row.dynamic,)
    path, args = folder / "model.onnx", row.args()
    try:
        export_and_validate(
            model, args, path=path, provider="cpu", dynamic_shapes=shapes, options=options, adversarial=hard, log=log
        )
    except ExportError:
        assert {finding.rule.id for finding in log.findings} & {"FXP5002", "FXP5003", "FXP6003"}, log.findings
        return True
    return False


@pytest.mark.parametrize("name", SAMPLE)
def test_a_subtle_fault_is_found(name: str, tmp_path: Path) -> None:
    assert is_found(SUBTLE[name], tmp_path)


@pytest.mark.parametrize("name", INEXACT)
def test_a_kernel_that_is_inexact_beside_0_is_no_fault(name: str, tmp_path: Path) -> None:
    assert not is_found(SUBTLE[name], tmp_path, sound=True)


@pytest.mark.parametrize("name", HARD)
def test_what_only_hard_values_show_is_found_on_them(name: str, tmp_path: Path) -> None:
    assert is_found(SUBTLE[name], tmp_path, hard=True)


@pytest.mark.slow
def test_nearly_all_subtle_faults_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """85% by default, 95% with --adversarial, and no row without its fault."""
    default, hard, alarms = (
        {name for name, row in SUBTLE.items() if is_found(row, tmp_path, **terms)}
        for terms in ({}, {"hard": True}, {"hard": True, "sound": True})
    )
    with capsys.disabled():
        sys.stdout.write(f"\n{len(SUBTLE)} subtle faults: {len(default)} found, {len(hard)} with --adversarial\n")
        sys.stdout.write(f"not by default: {', '.join(sorted(SUBTLE.keys() - default))}\n")
    assert len(default) >= 0.85 * len(SUBTLE)
    assert len(hard) >= 0.95 * len(SUBTLE)
    assert not alarms
