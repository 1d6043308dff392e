"""Rows for exporter/lowering/lowerings/embed.py."""

import torch

from tests.cases.ops import OpCase, f, i, v

aten = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

CASES = (
    OpCase(aten.embedding.default, f(4, 3), i(2, 5), vary={"padding_idx": (-1, 2)}, dtypes=FLOATS, dynamic="4 3, n m"),
    OpCase(aten.embedding.default, f(4, 3), i(dtype=torch.int32)),
    OpCase(aten.embedding.default, f(4, 3), i(0, 2)),
    OpCase(aten.one_hot.default, i(2, 3), 5, dynamic="n 3"),
    OpCase(aten.one_hot.default, i(), 4),
    OpCase(aten.one_hot.default, i(0), 4),
    OpCase(
        aten.embedding_renorm.default, f(4, 3), i(2, 2), 0.5, vary={"norm_type": (2.0, 1.0, 3.0)}, dtypes=FLOATS[:2]
    ),
    OpCase(aten.embedding_renorm.default, f(4, 3), i(3), 100.0, 2.0, dynamic="4 3, n"),
    *(
        OpCase(
            target,
            f(4, 3),
            i(7),
            v([0, 2, 2, 5], torch.int64),
            vary={"mode": (0, 1, 2), "padding_idx": (-1, 1)},
            dynamic="4 3, n",
        )
        for target in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
    ),
    OpCase(
        aten._embedding_bag.default,
        f(4, 3),
        i(7),
        v([0, 2, 2, 7], torch.int64),
        vary={"mode": (0, 1, 2), "padding_idx": (-1, 1)},
        include_last_offset=True,
    ),
    OpCase(
        aten._embedding_bag_forward_only.default,
        f(4, 3),
        i(7, dtype=torch.int32),
        v([0, 3], torch.int32),
        per_sample_weights=f(7),
        dtypes=FLOATS[:1],
        results=1,
    ),
    OpCase(aten._embedding_bag_forward_only.default, f(4, 3), i(0), v([0, 0], torch.int64), results=1),
)
