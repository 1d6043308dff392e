"""Rows for exporter/lowering/lowerings/index.py."""

import torch

from tests.cases.ops import ALL, OpCase, b, f, i, v

aten = torch.ops.aten
MASK = v([[True, False, True], [False, True, True]], torch.bool)
NOTHING = v([False, False], torch.bool)

CASES = (
    # one index
    OpCase(aten.index.Tensor, f(4, 3), [i(5)], dtypes=ALL, dynamic="n 3, m"),
    OpCase(aten.index.Tensor, f(4, 3), [i(2, 5, low=-4)], dynamic="n 3, m 5"),
    OpCase(aten.index.Tensor, f(2, 4, 3), [None, i(5, dtype=torch.int32)], dynamic="n 4 3"),
    OpCase(aten.index.Tensor, f(2, 4, 3), [None, None, i(2, 2, low=-3, high=3)]),
    OpCase(aten.index.Tensor, f(4, 3), [i()]),
    OpCase(aten.index.Tensor, f(4, 3), [i(0)]),
    # several at the front
    OpCase(aten.index.Tensor, f(4, 5, 3), [i(6), i(6)], dtypes=ALL, dynamic="n 5 3, m, m"),
    OpCase(aten.index.Tensor, f(4, 5, 3), [i(6, low=-4), i(2, 6, low=-5)], dynamic="n 5 3, m, k m"),
    OpCase(aten.index.Tensor, f(4, 5, 3), [i(6), i(1)]),
    OpCase(aten.index.Tensor, f(4, 5), [i(), i()]),
    OpCase(aten.index.Tensor, f(4, 5), [i(0), i(0)]),
    # each along axes of its own
    OpCase(aten.index.Tensor, f(2, 3, 4, 5), [None, None, i(6, 1), i(7)], dtypes=ALL, dynamic="n 3 h w, a 1, b"),
    OpCase(aten.index.Tensor, f(4, 5, 3), [i(2, 6, 1, low=-4), i(3, low=-5)], dynamic="n m 3, 2 a 1, b"),
    OpCase(aten.index.Tensor, f(4, 5, 3), [i(1, 6, 1), i(1, 1, 3)]),
    OpCase(aten.index.Tensor, f(4, 5, 3), [i(6), i(2, 1)]),  # the other way round
    # adjacent, behind the first axis
    OpCase(aten.index.Tensor, f(2, 4, 5, 3), [None, i(6, low=-4), i(6, low=-5)], dtypes=ALL, dynamic="n a b 3, m, m"),
    OpCase(aten.index.Tensor, f(2, 4, 5, 3), [None, i(2, 6), i(6)], dynamic="n a b 3, k m, m"),
    OpCase(aten.index.Tensor, f(2, 3, 4, 3), [None, i(6, high=3), i(6, high=4), i(6, high=3)]),
    # with gaps
    OpCase(aten.index.Tensor, f(4, 2, 5), [i(6, low=-4), None, i(6, low=-5)], dtypes=ALL, dynamic="a n b, m, m"),
    OpCase(aten.index.Tensor, f(4, 2, 5, 3), [i(6), None, i(2, 6)], dynamic="a n b 3, m, k m"),
    OpCase(aten.index.Tensor, f(2, 4, 3, 5), [None, i(6), None, i(6)]),
    # masks
    OpCase(aten.index.Tensor, f(2, 3, 4), [MASK], dtypes=ALL),
    OpCase(aten.index.Tensor, f(2, 3, 4), [b(2, 3)], dynamic="n m 4, n m"),
    OpCase(aten.index.Tensor, f(2, 3), [b(2, 3)], dynamic="n m, n m"),
    OpCase(aten.index.Tensor, f(2, 3, 4), [None, b(3)], dynamic="n m 4, m"),
    OpCase(aten.index.Tensor, f(2, 3, 4), [None, None, b(4)]),
    OpCase(aten.index.Tensor, f(5, 2, 3), [None, b(2, 3)]),
    OpCase(aten.index.Tensor, f(2, 3), [NOTHING]),
    OpCase(aten.index.Tensor, f(2, 3, 4), [b(2), None, i(1)], dynamic="n 3 4, n"),
    OpCase(aten.index.Tensor, f(2, 3, 0), [b(2), v([[0]], torch.int64)], dynamic="n 3 0, n"),
    OpCase(aten.index.Tensor, f(2, 3, 4), [b(2), v([[0]], torch.int64)], dynamic="n 3 4, n"),
    OpCase(aten._unsafe_index.Tensor, f(2, 3, 4, 5), [None, None, i(6, 1), i(7)]),
    OpCase(aten.index_select.default, f(4, 3), vary={"dim": (0, -2)}, index=i(5), dtypes=ALL, dynamic="n 3, m"),
    OpCase(aten.index_select.default, f(4, 3), 1, i(2, high=3, dtype=torch.int32)),
    OpCase(aten.index_select.default, f(4, 3), 0, i()),
    OpCase(aten.index_select.default, f(), 0, v([0], torch.int64)),
    OpCase(aten.gather.default, f(4, 3), vary={"dim": (0, -2)}, index=i(5, 2), dtypes=ALL, dynamic="n 3, m 2"),
    OpCase(aten.gather.default, f(2, 3, 4), 2, i(2, 3, 5), dynamic="n 3 4, n 3 m"),
    OpCase(aten.gather.default, f(4, 3), 1, i(2, 2, high=3)),
    OpCase(aten.gather.default, f(4, 3), 0, i(0, 3)),
    OpCase(aten.gather.default, f(4, 3), 0, i(0)),
    OpCase(aten.gather.default, f(), 0, v(0, torch.int64)),
    OpCase(aten.gather.default, f(3), 0, v(2, torch.int64)),
    OpCase(aten.gather.default, f(), 0, v([0], torch.int64)),
    OpCase(aten.take_along_dim.default, f(4, 3), i(5, 3), 0),
    OpCase(aten.take_along_dim.default, f(4, 3), i(1, 2, high=3), -1),
    OpCase(aten.take_along_dim.default, f(1, 3), i(4, 2, high=3), 1),
    OpCase(aten.take_along_dim.default, f(4, 3), i(2, 2, high=12)),
    OpCase(aten.take.default, f(4, 3), i(2, 5, low=-12, high=12), dtypes=ALL, dynamic="n 3, m 5"),
    OpCase(aten.take.default, f(), v([0, 0], torch.int64)),
)
