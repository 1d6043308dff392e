"""Rows for fx_passes/decompositions/windows.py."""

import torch

from tests.cases.ops import OpCase

aten = torch.ops.aten

KINDS = ("hamming", "bartlett", "blackman", "kaiser")
PERIODIC = {"periodic": (False, True), "dtype": (None, torch.float64)}

CASES = (
    *(OpCase(getattr(aten, f"{kind}_window").default, 9) for kind in KINDS),
    *(OpCase(getattr(aten, f"{kind}_window").periodic, 8, vary=PERIODIC) for kind in KINDS),
    *(OpCase(getattr(aten, f"{kind}_window").periodic, 1, False) for kind in KINDS),
    *(OpCase(getattr(aten, f"{kind}_window").periodic, 0, False) for kind in KINDS),
    OpCase(aten.hamming_window.periodic_alpha, 8, False, 0.6),
    OpCase(aten.hamming_window.periodic_alpha_beta, 8, True, 0.6, 0.3),
    OpCase(aten.kaiser_window.beta, 8, True, 6.0),
    OpCase(aten.fft_fftfreq.default, 8, 0.5),
    OpCase(aten.fft_fftfreq.default, 9, dtype=torch.float64),
    OpCase(aten.fft_rfftfreq.default, 8, 0.5),
    OpCase(aten.fft_rfftfreq.default, 9),
    OpCase(aten.range.default, -1, 3.5),
    OpCase(aten.range.step, 5, 1, -0.5),
)
