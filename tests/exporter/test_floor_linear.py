"""Nested sizes in their shortest form: the same value at every size."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils._sympy import functions
from torch.utils._sympy.functions import IntTrueDiv, Max, Min

from fxport import export
from fxport.exporter.capture.sizes.floor_linear import shortened
from tests.cases.models.pictures import same_padded, shifted_windows

FloorDiv: Any = functions.FloorDiv  # sympy gives its functions no types
PythonMod: Any = functions.PythonMod
CeilToInt: Any = functions.CeilToInt
n, m = sympy.symbols("n m", integer=True, positive=True)
QUARTER = FloorDiv(n, 4)

SHORT = {
    FloorDiv(FloorDiv(n - 1, 2) + 1, 2): FloorDiv(n + 1, 4),
    QUARTER + PythonMod(7 - PythonMod(QUARTER, 7), 7): 7 * FloorDiv(n - 4, 28) + 7,
    FloorDiv(QUARTER + PythonMod(QUARTER, 2), 2): FloorDiv(n - 4, 8) + 1,
    QUARTER - FloorDiv(n, 8): FloorDiv(n - 4, 8) + 1,
    n + Max(0, 2 * CeilToInt(IntTrueDiv(n, 2)) + 1 - n): 2 * FloorDiv(n - 1, 2) + 3,
    Max(0, QUARTER - FloorDiv(n, 3)): sympy.Integer(0),
    Max(0, FloorDiv(n, 3) - QUARTER - 2): Max(0, FloorDiv(n, 3) - QUARTER - 2),
    FloorDiv(FloorDiv(n, 3) + FloorDiv(m + 1, 2), 2): FloorDiv(FloorDiv(n, 3) + FloorDiv(m + 1, 2), 2),
    QUARTER: QUARTER,
}


@pytest.mark.parametrize("long", SHORT, ids=str)
def test_short_forms(long: sympy.Expr) -> None:
    assert shortened(long) == SHORT[long]


STEPS: dict[str, Any] = {
    "divide": lambda e, c, k: FloorDiv(e + c, k),
    "pad": lambda e, c, k: e + PythonMod(k - PythonMod(e, k), k),
    "remainder": lambda e, c, k: PythonMod(e + c, k),
    "round up": lambda e, c, k: CeilToInt(IntTrueDiv(e, k)),
    "scale": lambda e, c, k: k * e + c,
    "difference": lambda e, c, k: e - FloorDiv(e + c, k),
    "at least": lambda e, c, k: Max(e, c),
    "at most": lambda e, c, k: Min(e + FloorDiv(n, 2), 3 * n + c),
}
STEP = st.tuples(st.sampled_from(sorted(STEPS)), st.integers(-9, 9), st.integers(2, 7))


def at(expr: Any, size: int) -> int:
    return int(expr.xreplace({n: sympy.Integer(size)}))


@given(st.lists(STEP, min_size=2, max_size=4))
def test_shortening_keeps_every_value(steps: list[tuple[str, int, int]]) -> None:
    expr: Any = n
    for step, offset, factor in steps:
        expr = STEPS[step](expr, offset, factor)
    assume(expr.free_symbols)
    short = shortened(expr)
    for size in (*range(12), 49, 50, 97, 1000, 1001, 65537):
        assert at(short, size) == at(expr, size)


@pytest.mark.parametrize("build", [same_padded, shifted_windows])
def test_sizes_of_a_deep_network_are_not_nested(build: Any) -> None:
    example = build()
    program = export(example.model, example.args, dynamic_shapes=example.dynamic_shapes).program
    values = (node.meta.get("val") for node in program.graph_module.graph.nodes)
    sizes = [size for value in values for size in getattr(value, "shape", ())]
    expressions = {size.node.expr for size in sizes if hasattr(size, "node")}
    divisions = {each for size in expressions for each in size.atoms(FloorDiv)}
    assert len(divisions) > 3
    assert not any(each.args[0].has(FloorDiv) for each in divisions)
