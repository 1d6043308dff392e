"""Fourier transforms whose sizes and batches are dynamic at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fft import fft, irfft, irfft2, rfft, rfft2

from fxport import export
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
    "there and back over two axes": lambda x: irfft2(rfft2(x), s=x.shape[-2:]),
}


@pytest.mark.parametrize("name", FORMS)
def test_transforms_of_dynamic_sizes(name: str) -> None:
    model = Forward(FORMS[name])
    program = export(model, (torch.randn(5, 6),), dynamic_shapes=BOTH)
    session = session_of(program)
    for sizes in ((5, 6), (2, 7), (1, 12), (3, 2), (7, 31)):
        x = torch.randn(*sizes)
        assert_same(run_session(session, program, (x,)), [model(x)], tol=(1e-4, 1e-4))
