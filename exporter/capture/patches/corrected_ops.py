"""Ops for which PyTorch's dispatcher runs a wrong decomposition where gradients are traced, and the right one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from fxport.exporter.capture.patches.whole_ops import registered
from fxport.fx_passes.decompositions import margins

aten = torch.ops.aten

CORRECTED: Mapping[OpOverload, Callable[..., Any]] = {
    aten.multilabel_margin_loss_forward.default: margins.multilabel_margin_loss,
}
"""Right decomposition of each op.

`multilabel_margin_loss`: PyTorch's counts the losses of labels behind the first -1 too.
"""


def corrected_ops() -> AbstractContextManager[None]:
    """Let traces below autograd look into these ops by decompositions that are right."""
    return registered({op: {DispatchKey.Autograd: rule} for op, rule in CORRECTED.items()})
