"""Decompositions that PyTorch's tables lack: each in ATen ops that have a lowering or decompose to such."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fxport.fx_passes.decompositions import (
    covariance,
    gradients,
    linear_cross_entropy,
    loss_gradients,
    margins,
    observers,
    resampling,
    segments,
    synonyms,
    transforms,
    windows,
)

RULES: Mapping[str, Callable[..., Any]] = {
    **windows.RULES,
    **covariance.RULES,
    **synonyms.RULES,
    **gradients.RULES,
    **loss_gradients.RULES,
    **resampling.RULES,
    **segments.RULES,
    **linear_cross_entropy.RULES,
    **margins.RULES,
    **observers.RULES,
    **transforms.RULES,
}
"""By the name of the operator, since not every version of PyTorch has all of them."""
