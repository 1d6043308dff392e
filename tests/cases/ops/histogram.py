"""Rows for exporter/lowering/lowerings/histogram.py. PyTorch cannot capture `histogram` with dynamic sizes."""

import torch

from tests.cases.ops import INTS, OpCase, f, i, v

aten = torch.ops.aten

NAN = float("nan")
SINGLE = (torch.float32, torch.float64)

CASES = (
    OpCase(aten.bincount.default, i(9, high=6), vary={"minlength": (0, 3, 10)}, dynamic="n"),
    OpCase(aten.bincount.default, v([3, 0, 3]), dtypes=INTS),
    OpCase(aten.bincount.default, i(9, high=6), f(9), dtypes=(*SINGLE, torch.int64), dynamic="n, n"),
    OpCase(aten.bincount.default, i(0), vary={"minlength": (0, 3)}),
    OpCase(
        aten._convert_indices_from_coo_to_csr.default,
        v([0, 0, 2, 3, 3]),
        5,
        vary={"out_int32": (False, True)},
        dtypes=(torch.int32, torch.int64),
    ),
    OpCase(aten._convert_indices_from_coo_to_csr.default, i(9, high=1), 3, dynamic="n"),
    OpCase(aten._convert_indices_from_coo_to_csr.default, i(0), 3),
    OpCase(aten.histc.default, f(4, 5), vary={"bins": (1, 4, 100)}, dtypes=(*SINGLE, torch.float16), dynamic="n m"),
    OpCase(aten.histc.default, v([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, NAN]), 3, -1, 2),
    OpCase(aten.histc.default, v([2.0, 2.0]), 3),
    OpCase(aten.histc.default, f(0), 3),
    OpCase(aten.histogram.bin_ct, f(4, 5), vary={"bins": (1, 4), "density": (False, True)}, dtypes=SINGLE),
    OpCase(aten.histogram.bin_ct, f(4, 5), 3, range=[-1.0, 1.0], weight=f(4, 5), vary={"density": (False, True)}),
    OpCase(aten.histogram.bin_ct, v([2.0, 2.0]), 3),
    OpCase(aten.histogram.bin_ct, f(0), 3),
    OpCase(aten.histogram.bins_tensor, f(4, 5), v([-1.0, 0.0, 2.0]), vary={"density": (False, True)}),
    OpCase(aten.histogram.bins_tensor, f(4), v([-1.0, 0.0, 2.0]), weight=f(4), dtypes=SINGLE),
    OpCase(aten._histogramdd_bin_edges.default, f(6, 2), [2, 3], vary={"range": (None, [-1.0, 1.0, 0.0, 2.0])}),
    OpCase(aten._histogramdd_from_bin_cts.default, f(6, 2), [2, 3], vary={"range": (None, [-1.0, 1.0, 0.0, 2.0])}),
    OpCase(aten._histogramdd_from_bin_cts.default, f(2, 3, 2), [2, 3], weight=f(2, 3), density=True),
    OpCase(aten._histogramdd_from_bin_tensors.default, f(6, 2), [v([-1.0, 0.0, 2.0]), v([-2.0, 2.0])]),
)
