"""Ops for which PyTorch's dispatcher runs a decomposition that is wrong or asks data where gradients are traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._ops import OpOverload

from fxport.exporter.capture.patches.whole_ops import KEYS, registered
from fxport.fx_passes.decompositions import covariance, margins

aten = torch.ops.aten

CORRECTED: Mapping[OpOverload, Callable[..., Any]] = {
    aten.cov.default: covariance.cov,
    aten.corrcoef.default: covariance.corrcoef,
    aten.multilabel_margin_loss_forward.default: margins.multilabel_margin_loss,
}
"""Right decomposition of each op.

`cov` and `corrcoef`: PyTorch's look at the data, to warn of a divisor below 0.
`multilabel_margin_loss`: PyTorch's counts the losses of labels behind the first -1 too.
"""


def corrected_ops() -> AbstractContextManager[None]:
    """Let traces below autograd look into these ops by decompositions that are right."""
    return registered({op: dict.fromkeys(KEYS, rule) for op, rule in CORRECTED.items()})
