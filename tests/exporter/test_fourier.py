"""Fourier transforms whose sizes and batches are dynamic at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fft import fft, irfft, irfft2, rfft, rfft2

from fxport import ExportError, export
from fxport.diagnostics import rules
from tests.fx_passes.test_passes import Forward
from tests.running import assert_same, run_session, session_of

BOTH = ({0: "batch", 1: "time"},)


def convolved(x: Tensor) -> Tensor:
    n = 2 * x.shape[-1] - 1
    return irfft(rfft(x, n=n) * rfft(x.flip(1), n=n), n=n)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "there and back": lambda x: irfft(rfft(x), n=x.shape[-1]),
    "there and back over the batch": lambda x: irfft(rfft(x, dim=0) * 2, n=x.shape[0], dim=0),
    "padded": lambda x: rfft(x, n=x.shape[-1] + 3).abs(),
    "padded, of complex numbers": lambda x: fft(x, n=2 * x.shape[-1]).abs(),
    "a convolution": convolved,
}


@pytest.mark.parametrize("name", FORMS)
def test_transforms_of_dynamic_sizes(name: str) -> None:
    model = Forward(FORMS[name])
    program = export(model, (torch.randn(5, 6),), dynamic_shapes=BOTH)
    session = session_of(program)
    for sizes in ((5, 6), (2, 7), (1, 12), (3, 2), (7, 31)):
        x = torch.randn(*sizes)
        assert_same(run_session(session, program, (x,)), [model(x)], tol=(1e-4, 1e-4))


class OfTwoAxes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return irfft2(rfft2(x), s=x.shape[-2:])


def test_what_a_decomposition_decides_about_a_size_is_the_reason_of_a_refusal() -> None:
    with pytest.raises(ExportError) as raised:
        export(OfTwoAxes(), (torch.randn(5, 6),), dynamic_shapes=BOTH)
    (finding,) = [each for each in raised.value.log.findings if each.rule is rules.NO_MATCHING_OVERLOAD]
    assert "only where" in finding.message
    assert finding.place is not None
    assert finding.place.snippet is not None
    assert "irfft2(rfft2(x)" in finding.place.snippet
