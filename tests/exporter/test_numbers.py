"""Arithmetic of Python on sizes and on numbers of the data: as eager PyTorch has it, or refused at its line."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, OnnxProgram, export
from fxport.diagnostics import Log
from tests.modules import module_with
from tests.running import run_session, session_of, within_conditions

pytestmark = pytest.mark.filterwarnings("ignore:Bitwise inversion:DeprecationWarning")  # Python 3.12, of ~True

HEAD = """\
import math

import torch
from torch.nn import functional as F


class Model(torch.nn.Module):
    def forward(self, x, y):
        n = {number}
"""

FULL = "{0}torch.full((1,), {1}), torch.full((1,), {1}, dtype=torch.float64),"
"""A number by the dtype that its kind asks for, and to the last bit."""

Case = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Source:
    """Where a number comes from, and inputs with which it is negative, zero, one, large; the first is the example."""

    text: str
    cases: Sequence[Case]
    is_size: bool = False


def of_sizes(*sizes: int) -> Sequence[Case]:
    return [(torch.ones(size), torch.ones(2)) for size in sizes]


def of_data(*values: list[Any]) -> Sequence[Case]:
    return [(torch.ones(3), torch.tensor(value)) for value in values]


SOURCES: Mapping[str, Source] = {
    "size": Source("x.shape[0] - 5", of_sizes(8, 5, 6, 3, 2, 40), is_size=True),
    "int": Source("y.sum().item()", of_data([4, 3], [0, 0], [1, 0], [-4, -3], [99, 1])),
    "place": Source("y.argmax().item()", of_data([4, 3, 6], [4, 0, 0], [0, 1, 0])),
    "float": Source("y.mean().item()", of_data([2.5, 3.0], [0.0, 0.0], [1.0, 1.0], [-2.5, -3.0], [1e6, 0.5])),
    "truth of a size": Source("x.shape[0] > 5", of_sizes(8, 5, 2), is_size=True),
    "truth": Source("(y.sum() > 3).item()", of_data([4, 3], [0, 0])),
}

NUMBERS = (
    *("n + 1", "1 + n", "n - 2", "2 - n", "n * 3", "n * 0", "n - n", "n * n", "n + n + n", "-n", "+n", "abs(n)"),
    *("n / 4", "4 / (n * n + 1)", "n // 2", "-n // 2", "(-n) // 2", "-n // -2", "7 // (n * n + 1)", "n // 2.5"),
    *("n % 3", "n % -3", "n % 2.5", "-n % 2.5", "7.5 // (n * n + 1)", "divmod(n, 3)[0]", "divmod(n, -3)[1]"),
    *("n ** 2", "n ** 3", "n ** 0", "n ** 2.0", "(n + 0.5) ** 2", "(n + 0.5) ** -1", "(n * n + 1) ** -2"),
    *("abs(n) ** 0.5", "2.0 ** (n % 5)", "pow(n, 2)", "math.pow(n, 2)", "math.pow(2, n % 3)"),
    *("round(n)", "round(n / 2)", "round(-n / 2)", "round(n * 2.5, 1)", "round(n / 3, 2)", "round(n * 12.5, -1)"),
    *("int(n / 3)", "int(-n / 3)", "int(n * 0.29 * 100)", "n * 1.0", "n + True", "True * n"),
    *("math.floor(n)", "math.ceil(n)", "math.trunc(n)", "math.floor(n / 3)", "math.ceil(-n / 3)", "math.sqrt(abs(n))"),
    *("n == 1", "n == 1.0", "n != 2.5", "n < 2.5", "n >= 1.5", "n > float('inf')", "2.5 < n", "1 <= n"),
    *("sum([n, n, 1])", "sum([n, 0.5])", "n + (n > 1)", "(n > 1) + (n > 2)", "(n > 1) * 3", "-(n > 1)", "~(n > 1)"),
    *("sum([n > 1, n > 2, True])", "(n > 1) == 1", "(n > 1) == True", "(n > 1) != 0", "(n > 1) != (n > 2)"),
    *("(n > 1) + 0.5", "(n > 1) / 2", "(n > 1) // 2", "(n > 1) % 2", "(n > 1) < 1", "(n > 1) - 0.5 > 0"),
    *("(n > 1) & (n < 9)", "(n > 1) & 1", "(n > 1) ^ (n > 2)", "(n > 1) | (n < 0)", "2 ** (n > 1)", "abs(n > 1)"),
    *("round(n > 1)", "(n > 1) << 2", "divmod(n > 1, 2)[1]", "max([n > 1, n > 2])", "min(n > 1, True)"),
    *("min(n * 1.0, 2.5)", "max(n * 0.5, 1.0, 2.0)", "max(n, 2.5) * 1.0", "min(n, 2.5) / 2", "int(max(n, 2.5))"),
)
"""What is right of every kind of number."""

INTEGERS = (
    *("~n", "n << 1", "n >> 1", "1 << n % 7", "n & 1", "n | 4", "n ^ 5", "6 & n", "min(n, 2)", "max(n, 2, 5)"),
    *(
        "round(n, -1)",
        "round(n * 5, -1)",
        "round(n, 1)",
        "pow(n, 2, 7)",
        "min([n, 3])",
        "3 ** (n % 5)",
        "n * 2**53 % 7",
    ),
)
"""What is right of whole numbers and of truth values besides."""


def model_of(number: str, lines: Sequence[str], folder: Path) -> nn.Module:
    """A model in a file of its own, which returns what the lines give."""
    source = HEAD.format(number=number) + "\n".join(["        return (", *lines, "        )", ""])
    return module_with(source, folder, "numbers").Model()


def exported(model: nn.Module, source: Source, log: Log) -> OnnxProgram:
    shapes = ({0: "n"}, None) if source.is_size else None
    return export(model, source.cases[0], dynamic_shapes=shapes, log=log)


def assert_right(texts: Sequence[str], source: Source, folder: Path, form: str = FULL) -> None:
    """All expressions, in one model, give what eager PyTorch gives in each case: the dtype, and each bit."""
    model = model_of(source.text, [form.format(" " * 12, text) for text in texts], folder)
    program = exported(model, source, Log())
    session = session_of(program)
    for case in source.cases:
        assert within_conditions(program, case), f"limited: {[each.words for each in program.program.conditions]}"
        expected = model(*case)
        found = run_session(session, program, case)
        labels = [text for text in texts for _ in range(len(expected) // len(texts))]
        for text, got, want in zip(labels, found, expected, strict=True):
            at = f"{text} where n is {source.text} of {[list(each.shape) for each in case]}, {case[1].tolist()}"
            assert got.dtype == want.dtype, f"{at}: {got.dtype} instead of {want.dtype}"
            assert torch.equal(got, want), f"{at}: {got} instead of {want}"


@pytest.mark.parametrize("name", SOURCES)
def test_numbers(name: str, tmp_path: Path) -> None:
    """Each expression with two of the six numbers, by a hash of its text; with each of them it is in the next test."""
    lot = [*SOURCES].index(name) % 3
    taken = [text for text in NUMBERS if zlib.crc32(text.encode()) % 3 == lot]
    assert_right(taken, SOURCES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_all_numbers(name: str, tmp_path: Path) -> None:
    assert_right(NUMBERS, SOURCES[name], tmp_path)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "float"])
def test_whole_numbers(name: str, tmp_path: Path) -> None:
    assert_right(INTEGERS, SOURCES[name], tmp_path)


def test_truth_values_of_data(tmp_path: Path) -> None:
    texts = ("not n", "not n - 4", "not not n", "0.5 * ((n > 1) ^ (n < 9))", "2 * (not n)", "math.degrees(n)")
    assert_right(texts, SOURCES["int"], tmp_path)


ZEROS = Source("y[0].item()", of_data([1.5], [-7.0], [-0.0], [0.0], [6.0], [-0.04]))


def test_a_remainder_of_zero_has_the_sign_of_the_divisor(tmp_path: Path) -> None:
    assert_right(("n % 1", "n % -3", "-n % 2.5", "divmod(n, -1)[1]"), ZEROS, tmp_path, "{}1 / torch.full((1,), {}),")


@pytest.mark.parametrize(
    "texts",
    [
        ("n // 1", "n // -2", "round(n, 1)", "round(n, -1)", "n + 0", "n - 0", "sum([n])", "n // -math.inf"),
        ("math.atan2(n, 1)", "math.atan2(n, -1)", "math.erf(n)", "math.sinh(n)", "math.asin(n / 9)", "math.atan(n)"),
        ("math.log1p(n / 9)",),
    ],
)
def test_the_sign_of_zero(texts: Sequence[str], tmp_path: Path) -> None:
    assert_right(texts, ZEROS, tmp_path, "{}torch.full((1,), math.copysign(1, {})),")


LARGE = Source("y.sum().item()", of_data([2**53, 1], [-(2**53), -1], [2**40, 7], [5, 0]))


def test_whole_numbers_beyond_doubles(tmp_path: Path) -> None:
    texts = ("n + 1", "n * 3", "n // 3", "n % 7", "n == 2.0**53", "n > 2.0**53", "n <= -(2.0**53)", "-n // 2", "abs(n)")
    more = (
        "int(n)",
        "round(n)",
        "math.floor(n)",
        "round(n, -2)",
        "n & 255",
        "n >> 3",
        "max(n, 2)",
        "float(n)",
        "n ** 1",
    )
    assert_right((*texts, *more, "(n // 2**30) ** 2", "n * 0.5", "3 ** (n % 39)"), LARGE, tmp_path)


TENSORS = {
    "float": "torch.arange(4.0) - 1",
    "int": "torch.arange(4) - 1",
    "byte": "(torch.arange(4) - 1).to(torch.int8)",
    "truth": "torch.arange(4) > 1",
}

WITH_TENSORS = (
    *("t * n", "n * t", "t + n", "t * 2 + n", "t / 3 + n", "t > n", "t == n", "torch.where(t > 0, t, n)"),
    *("torch.stack([t, t]).sum() * n", "(t * 2).sum() + n", "torch.full((2,), n)", "torch.tensor([n, n])"),
    *(
        "torch.tensor(n)",
        "torch.scalar_tensor(n)",
        "torch.as_tensor(n)",
        "(t * 1.5) % (abs(n) + 2)",
        "torch.arange(n, n + 2)",
    ),
)


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("name", ["int", "float", "truth of a size", "truth"])
def test_numbers_with_tensors(name: str, kind: str, tmp_path: Path) -> None:
    """A number does not decide on the dtype of a tensor of its own kind or of one above it; nothing is lost of it."""
    texts = [re.sub(r"\bt\b", f"({TENSORS[kind]})", text) for text in WITH_TENSORS]
    assert_right(texts, SOURCES[name], tmp_path, "{}{},")


LIMITED = {
    "n ** 0.5": "n: at least 5",
    "2 ** n": "n: 5 to 67",
    "7 / n": "n: not 5",
    "7 % (n - 1)": "n: not 6",
    "1 << n": "n: 5 to 67",
    "torch.zeros(n).sum().item()": "n: at least 5",
    "torch.arange(n).sum().item()": "n: at least 5",
}
"""Numbers that Python refuses at some sizes, or that are of another kind or beyond 64 bits there, and the condition."""


@pytest.mark.parametrize("text", LIMITED)
def test_what_python_refuses_is_no_size_of_the_model(text: str, tmp_path: Path) -> None:
    source = SOURCES["size"]
    program = exported(model_of(source.text, [FULL.format(" " * 12, text)], tmp_path), source, Log())
    assert [each.words for each in program.program.conditions] == [LIMITED[text]]
    model = model_of(source.text, [FULL.format(" " * 12, text)], tmp_path)
    session, compared = session_of(program), 0
    for case in source.cases:
        if within_conditions(program, case):
            compared += 1
            assert all(map(torch.equal, run_session(session, program, case), model(*case)))
    assert 0 < compared < len(source.cases)


REFUSED = {
    ("size", "(-8) ** (n / 3)"): "it is a power of a negative number, which is complex in Python",
    ("size", "(n - 7) ** 0.5"): "it is a power of a negative number, which is complex in Python",
    ("size", "max(n, 2.5)"): "its dtype depends on whether a number is float or int, as data has it",
    ("int", "torch.ones(2, dtype=torch.int64) * max(n, 2.5)"): "its dtype depends on whether",
    ("float", "min(n, 2) + 1"): "its dtype depends on whether a number is float or int, as data has it",
    ("float", "[min(n, 3), 4][0] * 2"): "its dtype depends on whether a number is float or int",
    ("truth", "max(n, 1)"): "its dtype depends on whether a number is bool or int, as data has it",
    ("int", "2 ** n"): "its dtype depends on whether a number is float or int, as data has it",
    ("int", "hash(n)"): "depends on the values or sizes of tensors",
}
"""By the number and the expression, the reason for which there is no right graph."""


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_what_no_graph_can_tell_is_refused_at_its_line(name: str, text: str, tmp_path: Path) -> None:
    source, log = SOURCES[name], Log()
    form = "{0}({1})," if "torch.ones" in text else "{0}torch.full((1,), {1}),"
    model = model_of(source.text, [form.format(" " * 12, text)], tmp_path)
    with pytest.raises(ExportError):
        exported(model, source, log)
    (error,) = (finding for finding in log.findings if finding.level == "error")
    assert REFUSED[name, text] in error.message
    assert error.place is not None
    assert text in str(error.place.snippet)


def test_a_number_of_unknown_kind_meets_floats(tmp_path: Path) -> None:
    """What it becomes is a float in either case."""
    texts = ("torch.ones(2) * max(n, 2.5)", "torch.full((2,), max(n, 2.5), dtype=torch.int64)", "x * min(n, 0.5)")
    for name in ("size", "int", "float"):
        source = SOURCES[name]
        cases = [(torch.ones(3), y) for _, y in source.cases] if not source.is_size else source.cases
        assert_right(texts, Source(source.text, cases, source.is_size), tmp_path, "{}{},")


BEYOND: Mapping[str, tuple[str, str | None]] = {
    "a power": ("n = int(y[0])\nreturn x * float(n**13)", "n**13"),
    "a factorial": ("n = 1\nfor k in range(1, int(y[0]) + 1):\n    n *= k\nreturn x * float(n)", "n *= k"),
    "a shift": ("n = 1 << abs(int(y[0]))\nreturn x * float(n)", "n = 1 <<"),
    "sums of two that grow": (
        "n, m = 0, 1\nfor k in range(int(y[0])):\n    n, m = m, n + m\nreturn x * float(m)",
        "n + m",
    ),
    "a power in a loop": (
        "n = k = 0\nfor v in y.tolist():\n    n = v**13\n    k = k + 1\nreturn x * float(n)",
        "v**13",
    ),
    "a hash with a remainder": ("n = 0\nfor v in y.tolist():\n    n = (n * 31 + v) % 997\nreturn x * n", None),
    "a sum": ("n = 0\nfor v in y.tolist():\n    n += 2 * v\nreturn x * n", None),
    "a sum of a counter": ("n = k = 0\nwhile k < int(y[0]):\n    k += 1\n    n += k * 2\nreturn x * n", None),
    "a volume": ("n = int(y[0]) * int(y[1]) * int(y[2])\nreturn x * n", None),
}
"""Bodies of `forward`, and the text of the line that may need more than 64 bits."""


GROWTH: Mapping[str, str] = {
    "a power": "If the data give numbers up to a million, these are 260 bits",
    "a factorial": "Each iteration of a loop makes it larger",
    "a shift": "If the data give numbers up to a million, these are 1048576 bits",
    "sums of two that grow": "Each iteration of a loop makes it larger",
    "a power in a loop": "If the data give numbers up to a million, these are 260 bits",
}
"""Models whose numbers need more than 64 bits, with what the finding says about how many."""


@pytest.mark.parametrize("name", BEYOND)
def test_numbers_that_may_need_more_than_64_bits_are_told(name: str, tmp_path: Path) -> None:
    text, line = BEYOND[name]
    body = "\n".join(f"        {each}" for each in text.splitlines())
    head = HEAD.partition("        n =")[0]
    module = module_with(f"{head}{body}\n", tmp_path, "beyond")
    log = Log()
    export(module.Model(), (torch.ones(2), torch.tensor([3, 1, 2])), dynamic_shapes=(None, {0: "n"}), log=log)
    told = [each.place for each in log.findings if each.rule.id == "FXP1037"]
    lines = Path(module.__file__).read_text().splitlines()
    assert [line in lines[place.line - 1] for place in told if place and line] == [True] * (line is not None)
    growth = [each.facts["growth"] for each in log.findings if each.rule.id == "FXP1037"]
    assert growth == ([GROWTH[name]] if line is not None else [])


POWERS: Mapping[str, bool] = {
    "y[0].item() ** 0.5": True,
    "(1 - y.square().sum().item()) ** 0.25": True,
    "y[0].item() ** (y[1].item() / 3)": True,
    "y[0].item() ** 2": False,
    "y[0].item() ** -1.0": False,
    "y[0].item() ** int(y[1])": False,
    "2.0 ** y[0].item()": False,
    "y.square().sum().item() ** 0.5": False,
    "(y * y).mean().item() ** 0.5": False,
    "(y**2).mean().item() ** 0.5": False,
    "(y.norm().item() + 1) ** 1.5": False,
    "abs(y[0].item()) ** 0.5": False,
    "max(y[0].item(), 0.0) ** 0.5": False,
    "y.clamp(min=0).sum().item() ** 0.5": False,
    "(y.abs().max() / 2).item() ** 0.5 if y.sum() > 3 else 1.0": False,
}
"""Powers of numbers of the data, and whether they may be complex in Python."""


@pytest.mark.parametrize("text", POWERS)
def test_powers_that_may_be_complex_are_told(text: str, tmp_path: Path) -> None:
    model, log = model_of(text, ["x * n"], tmp_path), Log()
    export(model, (torch.ones(2), torch.tensor([0.5, 0.25])), log=log)
    places = [each.place for each in log.findings if each.rule.id == "FXP1039"]
    assert [place.snippet is not None and text in place.snippet for place in places if place] == [True] * POWERS[text]


SORTINGS = {
    "sorted([x[0], x[1], x[2]], key=lambda t: float(t))": 1,
    "sorted([x[0], x[1], x[2]])": 1,
    "sorted([x[0], x[1]], key=lambda t: float(t), reverse=True)": 1,
    "sorted([x[0], x[1], x[2]], key=lambda t: int(t))": 0,
    "[x[x.argsort(stable=True)]]": 0,
}
"""Lists that are sorted, and how many findings of FXP1040 they get."""


@pytest.mark.parametrize("text", SORTINGS)
def test_lists_that_are_sorted_by_floats_are_told(text: str, tmp_path: Path) -> None:
    model, log = model_of(text, ["torch.stack(n)"], tmp_path), Log()
    export(model, (torch.tensor([2.0, 3.0, 1.0]), torch.ones(2)), log=log)
    places = [each.place for each in log.findings if each.rule.id == "FXP1040"]
    assert [place.snippet is not None and text in place.snippet for place in places if place] == [True] * SORTINGS[text]
