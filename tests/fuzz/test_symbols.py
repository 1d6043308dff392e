"""Generated size expressions: what sympy computes, ONNX Runtime computes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import sympy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._sympy import functions as sf

from exporter.lower.builder import Op
from exporter.lower.symbols import FUNCTIONS
from fx_passes.sizes import plain

A, B = (sympy.Symbol(name, integer=True, positive=True) for name in "ab")

INTEGERS = st.recursive(
    st.sampled_from([A, B]) | st.integers(-3, 9).map(sympy.Integer),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 7)).map(lambda p: sf.FloorDiv(p[0], sympy.Integer(p[1]))),
        st.tuples(inner, st.integers(1, 7)).map(lambda p: sf.PythonMod(p[0], sympy.Integer(p[1]))),
        st.tuples(inner, inner).map(lambda p: sympy.Max(*p)),
        st.tuples(inner, inner).map(lambda p: sympy.Min(*p)),
        st.tuples(inner, st.integers(1, 5)).map(lambda p: sf.CeilToInt(sf.IntTrueDiv(p[0], sympy.Integer(p[1])))),
        st.tuples(inner, st.integers(1, 5)).map(lambda p: sf.FloorToInt(sf.IntTrueDiv(p[0], sympy.Integer(p[1])))),
        st.tuples(inner, st.integers(1, 5)).map(lambda p: sf.TruncToInt(sf.IntTrueDiv(p[0], sympy.Integer(p[1])))),
    ),
    max_leaves=6,
)

RELATIONS = st.tuples(
    INTEGERS, INTEGERS, st.sampled_from([sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le, sympy.Eq, sympy.Ne])
).map(lambda parts: parts[2](parts[0], parts[1]))


def computed(expr: Any, a: int, b: int) -> Any:
    """The expression's value in ONNX Runtime, for inputs of a and b elements."""
    op = Op(opset=20)
    inputs = []
    for symbol in (A, B):
        value = ir.val(str(symbol), ir.DataType.FLOAT, [str(symbol)])
        op.symbols.bind_sizes(value, [symbol])
        inputs.append(value)
    result = op.Identity(op.symbols.scalar(expr))
    graph = ir.Graph(
        inputs,
        [result],
        nodes=op.scope.nodes,
        initializers=list(op.initializers.values()),
        opset_imports={"": 20},
        name="expression",
    )
    result.shape = ir.Shape([])
    model = ir.to_proto(ir.Model(graph, ir_version=9)).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"a": np.zeros(a, np.float32), "b": np.zeros(b, np.float32)})[0].item()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(INTEGERS | RELATIONS, st.integers(1, 40), st.integers(1, 40))
def test_expression(expr: Any, a: int, b: int) -> None:
    expected = plain(expr.subs({A: a, B: b})) if isinstance(expr, sympy.Basic) else expr
    assert computed(expr, a, b) == expected


def test_every_function_has_its_class() -> None:
    """Rows are found by class name, so a name that neither PyTorch nor sympy has would never be used."""
    known = {name for module in (sf, sympy, sympy.core.relational, sympy.logic.boolalg) for name in dir(module)}
    assert set(FUNCTIONS) <= known


class Shaped(torch.nn.Module):
    """Sizes by Python's own arithmetic, as people write it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        half, odd, up = n // 2, n % 3, -(-n // 4)
        root = math.ceil(n * 0.7)
        return torch.zeros(half + 1, odd + 1, up, root)


def test_shape_arithmetic_of_python() -> None:
    from tests.running import assert_same, run_exported

    cases = [(torch.zeros(size),) for size in (9, 10, 11, 17)]
    for given_case, actual in zip(cases, run_exported(Shaped(), cases, dynamic_shapes=({0: "n"},)), strict=True):
        assert_same(actual, [Shaped()(*given_case)])
