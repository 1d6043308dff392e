"""Axes whose size only a run tells, because branches of the model ask for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import fxport.fx_passes.data_sizes  # noqa: F401  # registers the op
from fxport.exporter.lowering.lower.builder import Op, Value
from fxport.exporter.lowering.lower.registry import lowering
from fxport.exporter.lowering.lower.symbols import Size


@lowering(torch.ops.fxport.sized_by_data.default)
def sized_by_data(op: Op, x: Value, sizes: Sequence[Size], least: Sequence[int], most: Sequence[int]) -> Value:
    """fxport::sized_by_data(Tensor x, SymInt[] sizes, SymInt[] least, SymInt[] most) -> Tensor"""
    return op.Identity(x)
