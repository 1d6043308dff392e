"""Operators called as `torch.ops.aten.*`: every overload of one that is lowered is lowered, with all its results."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.exporter.lowering.lowerings import LOWERINGS
from fxport.fx_passes.decompose import decomposition_of

LEFT = {
    "aten._scaled_dot_product_flash_attention.quantized": "of kernels for CUDA, as the op without scales is",
    "aten.randint_like.Tensor_generator": "numbers of a generator of the user's, which a file has no state of",
    "aten.random.from": "the functional form of random_, which draws over a whole integer type",
}
"""Overloads without a lowering, and why."""


def overloads() -> Iterator[torch._ops.OpOverload]:
    """Yield those that write nothing and have a kernel, of all operators of which one overload is lowered."""
    names = {target._schema.name for target in LOWERINGS if isinstance(target, torch._ops.OpOverload)}
    for namespace, name in sorted(name.split("::") for name in names):
        packet = getattr(torch.ops.aten, name) if namespace == "aten" else None
        for overload in map(lambda each, of=packet: getattr(of, each), packet.overloads() if packet else ()):
            writes = any(each.alias_info and each.alias_info.is_write for each in overload._schema.arguments)
            if not writes and _is_dispatched(overload):
                yield overload


def _is_dispatched(overload: torch._ops.OpOverload) -> bool:
    """Return True for an operator of tensors: others, of numbers and lists, are TorchScript's."""
    try:
        torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), "CPU")
    except RuntimeError:
        return False
    return True


def test_every_overload_is_lowered_or_has_a_reason() -> None:
    known = {str(each): each in LOWERINGS or decomposition_of(each) is not None for each in overloads()}
    assert {name for name, lowered in known.items() if not lowered} == LEFT.keys() & known.keys()


class Determinant(nn.Module):
    """The factorization, which is for the gradient, is not made."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found, factors, _ = torch.ops.aten._linalg_det.default(x)
        return found, factors


def test_a_result_that_no_lowering_makes_is_refused_at_its_line() -> None:
    with pytest.raises(ExportError) as raised:
        export(Determinant(), (torch.eye(3),))
    (finding,) = raised.value.log.findings
    assert finding.rule.id == "FXP3002"
    assert "'aten._linalg_det.default' has a lowering, but not for these arguments" in finding.message
    assert "'output.1', which forward gives" in finding.message
    assert finding.place is not None
    assert finding.place.path.endswith("test_overloads.py")
