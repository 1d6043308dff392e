"""Rows for exporter/lowering/lowerings/index_put.py."""

import torch

from tests.cases.ops import ALL, NUMBERS, OpCase, b, f, i, v

aten = torch.ops.aten
INT = torch.int64
MASK = v([[True, False, True], [False, True, True]], torch.bool)
NOTHING = v([False, False], torch.bool)
BOTH = {"accumulate": (False, True)}
TWO = v([3, 0], INT)
SOME = v([1, -1], INT)  # distinct places, so that the order of writing does not matter

CASES = (
    # one index
    OpCase(aten.index_put.default, f(4, 3), [TWO], f(2, 3), vary=BOTH, dtypes=ALL),
    OpCase(aten.index_put.default, f(4, 3), [TWO], f(2, 3), vary=BOTH, dynamic="n m, 2, 2 m"),
    OpCase(aten.index_put.default, f(4, 3), [i(6)], f(6, 3), accumulate=True, dynamic="n 3, m, m 3"),
    OpCase(aten.index_put.default, f(4, 3), [TWO], f(), vary=BOTH),
    OpCase(aten.index_put.default, f(4, 3), [v(2, INT)], f(3), vary=BOTH),
    OpCase(aten.index_put.default, f(4, 3), [i(0)], f(0, 3)),
    OpCase(aten.index_put.default, f(2, 1, 1), [None, i(0)], f(2, 0, 1), vary=BOTH, dynamic="n 1 1, 0, n 0 1"),
    OpCase(aten.index_put.default, f(2, 0, 3), [None, None, SOME], f(), vary=BOTH),
    OpCase(aten.index_put.default, f(4), [SOME], f(1), vary=BOTH, dynamic="n"),
    OpCase(
        aten.index_put.default,
        f(2, 4, 3),
        [None, SOME],
        f(2, 2, 3),
        vary=BOTH,
        dtypes=NUMBERS,
        dynamic="n m 3, 2, n 2 3",
    ),
    OpCase(
        aten.index_put.default,
        f(2, 4, 5),
        [None, None, SOME],
        f(2, 4, 2),
        vary=BOTH,
        dtypes=NUMBERS,
        dynamic="n m 5, 2, n m 2",
    ),
    OpCase(aten.index_put.default, f(2, 4, 5), [None, None, SOME], f(2), vary=BOTH, dynamic="n m k"),
    OpCase(aten.index_put.default, f(2, 5), [None, v([[1, 2], [-1, 0]], INT)], f(2, 2, 2), vary=BOTH),
    # several
    OpCase(aten.index_put.default, f(4, 5, 3), [TWO, SOME], f(2, 3), vary=BOTH, dtypes=ALL, dynamic="n m 3, 2, 2, 2 3"),
    OpCase(aten.index_put.default, f(4, 5, 3), [v([[0], [2]], INT), SOME], f(2, 2, 3), vary=BOTH),
    OpCase(aten.index_put.default, f(4, 5, 3), [i(6), i(6)], f(6, 3), accumulate=True),
    OpCase(
        aten.index_put.default, f(2, 4, 5, 3), [None, TWO, SOME], f(2, 2, 3), vary=BOTH, dynamic="n a b 3, 2, 2, n 2 3"
    ),
    OpCase(aten.index_put.default, f(2, 4, 5), [None, TWO, SOME], f(2, 2), vary=BOTH, dynamic="n a b, 2, 2, n 2"),
    OpCase(
        aten.index_put.default, f(4, 2, 5, 3), [TWO, None, SOME], f(2, 2, 3), vary=BOTH, dynamic="a n b 3, 2, 2, 2 n 3"
    ),
    OpCase(aten.index_put.default, f(4, 2, 5), [TWO, None, v([[0], [1]], INT)], f(2, 2, 2), vary=BOTH),
    OpCase(aten.index_put.default, f(2, 4, 3, 5), [None, TWO, None, SOME], f(2, 2, 3), vary=BOTH),
    # masks
    OpCase(aten.index_put.default, f(2, 3), [b(2, 3)], f(), vary=BOTH, dtypes=ALL, dynamic="n m, n m"),
    OpCase(aten.index_put.default, f(2, 3), [b(2, 3)], f(1), vary=BOTH),
    OpCase(aten.index_put.default, f(2, 3, 4), [b(2, 3)], f(4), vary=BOTH, dynamic="n m 4, n m"),
    OpCase(aten.index_put.default, f(2, 3, 4), [b(2, 3)], f(1, 4), vary=BOTH),
    OpCase(aten.index_put.default, f(2, 3, 4), [None, b(3)], f(2, 1, 4), vary=BOTH, dynamic="n m 4, m, n 1 4"),
    OpCase(aten.index_put.default, f(2, 3, 4), [MASK], f(4, 4), vary=BOTH, dtypes=ALL),
    OpCase(aten.index_put.default, f(2, 3), [MASK], f(4), vary=BOTH),
    OpCase(aten.index_put.default, f(5, 2, 3), [None, MASK], f(5, 4), vary=BOTH, dynamic="n 2 3, 2 3, n 4"),
    OpCase(aten.index_put.default, f(2, 3), [NOTHING], f(0, 3), vary=BOTH),
    OpCase(aten.index_put.default, f(2, 3), [b()], f()),
    OpCase(aten.index_put.default, f(2, 3, 4), [v([True, False], torch.bool), None, SOME], f(2, 3), vary=BOTH),
    OpCase(aten.put.default, f(4, 3), v([[0, -1], [5, 7]], INT), f(4), vary=BOTH, dtypes=ALL, dynamic="n 3, 2 2, 4"),
    OpCase(aten.put.default, f(), v([0], INT), f(1), vary=BOTH),
    OpCase(aten.put.default, f(3), i(0), f(0), vary=BOTH),
    OpCase(aten._unsafe_index_put.default, f(4, 3), [TWO], f(2, 3), vary=BOTH),
    OpCase(aten._index_put_impl.default, f(4, 3), [TWO], f(2, 3), vary=BOTH),
)
