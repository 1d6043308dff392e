"""Generated size expressions: what sympy computes, ONNX Runtime computes."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import sympy
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._sympy import functions as sf

from fxport.exporter.lowering.lower.builder import Op
from fxport.exporter.lowering.lower.symbols import FUNCTIONS
from fxport.fx_passes import float_functions
from fxport.fx_passes.sizes import plain

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


def model_of(op: Op, inputs: Sequence[ir.Value], result: ir.Value) -> bytes:
    graph = ir.Graph(
        inputs,
        [result],
        nodes=op.scope.nodes,
        initializers=list(op.initializers.values()),
        opset_imports={"": 20},
        name="expression",
    )
    return ir.to_proto(ir.Model(graph, ir_version=9)).SerializeToString()


def computed(expr: Any, a: int, b: int) -> Any:
    """The expression's value in ONNX Runtime, for inputs of a and b elements."""
    op = Op(opset=20)
    inputs = []
    for symbol in (A, B):
        value = ir.val(str(symbol), ir.DataType.FLOAT, [str(symbol)])
        op.symbols.bind_sizes(value, [symbol])
        inputs.append(value)
    result = op.Identity(op.symbols.scalar(expr))
    result.shape = ir.Shape([])
    session = onnxruntime.InferenceSession(model_of(op, inputs, result), providers=["CPUExecutionProvider"])
    return session.run(None, {"a": np.zeros(a, np.float32), "b": np.zeros(b, np.float32)})[0].item()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(INTEGERS | RELATIONS, st.integers(1, 40), st.integers(1, 40))
def test_expression(expr: Any, a: int, b: int) -> None:
    expected = plain(expr.subs({A: a, B: b})) if isinstance(expr, sympy.Basic) else expr
    assert computed(expr, a, b) == expected


X, Y = sympy.Symbol("x", real=True), sympy.Symbol("y", real=True)

FLOATS: Mapping[str, tuple[Any, Callable[[float, float], float]]] = {
    "a + b": (float_functions.FloatAdd(X, Y), operator.add),
    "a - b": (float_functions.FloatAdd(X, float_functions.FloatMul(sympy.Float(-1.0), Y)), operator.sub),
    "a * b": (float_functions.FloatMul(X, Y), operator.mul),
    "a / b": (sf.FloatTrueDiv(X, Y), operator.truediv),
    "1 / a * b": (float_functions.FloatMul(sf.FloatTrueDiv(sympy.Float(1.0), X), Y), lambda x, y: 1.0 / x * y),
    "a % b": (float_functions.FloatMod(X, Y), operator.mod),
    "a // b": (float_functions.FloatFloorDiv(X, Y), operator.floordiv),
    "abs(a) ** b": (sf.FloatPow(sympy.Abs(X), Y), lambda x, y: abs(x) ** y),
    "int(a)": (sf.TruncToInt(X), lambda x, y: int(x)),
    "round(a)": (sf.RoundToInt(X), lambda x, y: round(x)),
    **{
        f"round(a, {digits})": (sf.RoundDecimal(X, sympy.Integer(digits)), lambda x, y, d=digits: round(x, d))
        for digits in (-2, -1, 0, 1, 2, 3, 9)
    },
}
"""Functions of two floats as expressions, and as Python computes them."""

AWKWARD = (0.5, 2.5, 2.675, 1.115, 1.0, 0.1, 0.3, 1 / 3, 7.0, 12.5, 15.0, 25.0, 2.0**52 + 1, 2.0**53, 1e15 + 0.3)


def pairs_of(seed: int) -> list[tuple[float, float]]:
    """Pairs of doubles, of which the second is not 0: in the middle between decimals, tiny, large, of either sign."""
    rng = random.Random(seed)
    decimals = [round(rng.uniform(-1000, 1000), rng.randint(0, 4)) for _ in range(400)]
    middles = [(rng.randint(-10_000, 10_000) + 0.5) / 10 ** rng.randint(-1, 3) for _ in range(400)]
    wide = [rng.uniform(-1, 1) * 10.0 ** rng.randint(-6, 15) for _ in range(400)]
    values = [*AWKWARD, *(-each for each in AWKWARD), *decimals, *middles, *wide]
    return [(a, b) for a, b in zip(values, rng.sample(values, len(values)), strict=True) if a and b]


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_floats_are_pythons_to_the_last_bit(name: str) -> None:
    expr, in_python = FLOATS[name]
    pairs = [(a, min(max(b, -5.0), 5.0) if "**" in name else b) for a, b in pairs_of(0)]
    op = Op(opset=20)
    inputs = [ir.val(str(symbol), ir.DataType.DOUBLE, [len(pairs)]) for symbol in (X, Y)]
    for symbol, value in zip((X, Y), inputs, strict=True):
        op.symbols.sources[symbol] = lambda value=value: value
    result = op.Identity(op.symbols.vector(expr))
    result.shape = ir.Shape([len(pairs)])
    session = onnxruntime.InferenceSession(model_of(op, inputs, result), providers=["CPUExecutionProvider"])
    fed = {str(symbol): np.asarray(values) for symbol, values in zip((X, Y), zip(*pairs, strict=True), strict=True)}
    (found,) = session.run(None, fed)
    for (a, b), got in zip(pairs, found.tolist(), strict=True):
        assert got == in_python(a, b), f"{name} of a = {a!r}, b = {b!r}"
        assert plain(expr.subs({X: sympy.Float(a), Y: sympy.Float(b)})) == in_python(a, b)


def test_every_function_has_its_class() -> None:
    """Rows are found by class name, so a name that neither PyTorch nor sympy has would never be used."""
    modules = (sf, float_functions, sympy, sympy.core.relational, sympy.logic.boolalg)
    known = {name for module in modules for name in dir(module)}
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
