"""Generated arithmetic of Python on sizes: ONNX Runtime gives the number that Python gives, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from torch import nn

from fxport import ExportError, OnnxProgram, export
from fxport.diagnostics import Log
from tests.conftest import LONG, QUIET
from tests.modules import module_with
from tests.running import run_session, session_of

EXPRESSIONS, MODELS, MANY = 8, 5, 400
"""How many expressions are in a model, and how many models are made."""

SIZES = ((2, 3), (9, 4), (3, 2), *((n, 41 - n) for n in range(4, 40)))
"""Of both inputs; the second pair is that of the example."""

EXAMPLE = SIZES[1]

HEAD = """\
import math

import torch


class Generated(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
"""

FACTORS = (0.1, 0.29, 0.3, 0.5, 0.7, 1.5, 2.675, 1e-3, 1e3, 100.0, 3.0, 7.3)

integer_constants = st.integers(1, 9).map(str)
float_constants = st.sampled_from(FACTORS).map(repr)


def _texts(*forms: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda form, **made: form.format(**made), st.sampled_from(forms), **parts)


def integers(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are whole numbers to Python."""
    plain = st.sampled_from(("n", "n", "m")) | integer_constants
    if depth == 0:
        return plain
    a, b, f = integers(depth - 1), integers(depth - 1), floats(depth - 1)
    return st.one_of(
        plain,
        _texts("({a} + {b})", "({a} - {b})", "({a} * {b})", "min({a}, {b})", "max({a}, {b})", a=a, b=b),
        _texts("({a} // {k})", "({a} % {k})", "({a} // -{k})", "(-{a} % {k})", a=a, k=integer_constants),
        _texts("abs({a})", "(-{a})", "({a} ** 2)", "round({a})", "int({a})", a=a),
        _texts("int({f})", "round({f})", "math.ceil({f})", "math.floor({f})", "int(-{f})", "round(-{f})", f=f),
    )


def floats(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are fractions to Python."""
    plain = _texts(
        "({a} * {c})",
        "({c} * {a})",
        "({a} / {k})",
        "({c} - {a})",
        a=integers(0),
        c=float_constants,
        k=integer_constants,
    )
    if depth == 0:
        return plain
    a, f, g = integers(depth - 1), floats(depth - 1), floats(depth - 1)
    return st.one_of(
        plain,
        _texts("({f} + {g})", "({f} - {g})", "({f} * {g})", "min({f}, {g})", "max({f}, {g})", f=f, g=g),
        _texts("({f} * {c})", "({f} / {c})", "({f} // {c})", "({f} % {c})", "({f} + {c})", f=f, c=float_constants),
        _texts("({f} * {a})", "({a} - {f})", "({a} + {f})", "({a} / 7)", "({f} // {a})", f=f, a=a),
        _texts("round({f}, {d})", f=f, d=st.sampled_from(("0", "1", "2", "3", "-1"))),
        _texts("abs({f})", "(-{f})", "math.sqrt(abs({f}))", "abs({f}) ** 0.5", "({f} ** 2)", "float({f})", f=f),
        _texts("({f} if {g} > {c} else {c})", f=f, g=g, c=float_constants),
    )


def uses(text: str) -> tuple[str, ...]:
    """The number by itself, in the type that PyTorch makes of it; and as a size, and as the end of a slice."""
    whole = f"abs(int({text})) % 67"
    return (
        f"torch.full((1,), {text})",
        f"torch.full((1,), {text}, dtype=torch.float64)",
        f"x.new_ones({whole})",
        f"torch.arange(80)[: {whole}]",
    )


def source_of(texts: Sequence[str]) -> str:
    lines = [f"            {use}," for text in texts for use in uses(text)]
    return "\n".join([HEAD + "        return (", *lines, "        )", ""])


def made_of(source: str, folder: Path) -> nn.Module:
    """The model of the text, which is a file of its own as a user's would be."""
    return module_with(source, folder, "numbers").Generated()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("numbers")


def attempted(run: Callable[[], Any]) -> Any:
    """What it gives; None where Python refuses to compute it."""
    try:
        return run()
    except (ArithmeticError, ValueError, RuntimeError):
        return None


def allowed(program: OnnxProgram, sizes: tuple[int, int]) -> bool:
    """Whether the model says that it takes these sizes."""
    symbols = {
        symbol: size
        for node, size in zip(program.program.placeholders, sizes, strict=True)
        for symbol in node.meta["val"].shape[0].node.expr.free_symbols
    }
    return all(condition.allows(symbols) for condition in program.program.conditions)


def exported(model: nn.Module) -> OnnxProgram | None:
    example = tuple(torch.ones(size) for size in EXAMPLE)
    log = Log()
    with suppress(ExportError):
        return export(model, example, dynamic_shapes=({0: "n"}, {0: "m"}), log=log)
    assert any(finding.level == "error" and finding.place is not None for finding in log.findings)
    return None


@settings(max_examples=MANY if settings().max_examples == LONG else MODELS, suppress_health_check=QUIET)
@given(st.lists(integers(3) | floats(3), min_size=EXPRESSIONS, max_size=EXPRESSIONS))
def test_arithmetic_of_sizes(folder: Path, texts: list[str]) -> None:
    agree(folder, texts)


def agree(folder: Path, texts: Sequence[str]) -> None:
    """All expressions in one model; each in one of its own where one of them is refused."""
    source = source_of(texts)
    model = made_of(source, folder)
    if attempted(lambda: model(*(torch.ones(size) for size in EXAMPLE))) is None:
        if len(texts) > 1:
            for text in texts:
                agree(folder, [text])
        return
    note(source)
    program = exported(model)
    if program is None and len(texts) > 1:
        for text in texts:
            agree(folder, [text])
    event("exported" if program is not None else "refused")
    if program is None:
        return
    session = session_of(program)
    for sizes in SIZES:
        case = tuple(torch.ones(size) for size in sizes)
        expected = attempted(lambda case=case: model(*case))
        if expected is None or not allowed(program, sizes):
            continue
        actual = run_session(session, program, case)
        for use, got, want in zip((use for text in texts for use in uses(text)), actual, expected, strict=True):
            assert got.dtype == want.dtype, f"{use} at {sizes}: {got.dtype} instead of {want.dtype}"
            assert torch.equal(got, want), f"{use} at {sizes}: {got} instead of {want}"
