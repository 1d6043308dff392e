"""Whole numbers that sizes give, at sizes for which a graph may not have what Python has: limits, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from fxport import ExportError, export
from fxport.diagnostics import Log
from tests.modules import module_with
from tests.running import run_session, session_of

HEAD = """\
import math

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        n = x.shape[0]
"""

LINE = HEAD.count("\n") + 1

POWERS_OF_SIZES: Mapping[str, int | None] = {
    "n**20 % 7": 8,
    "2**n % 3": 62,
    "(1 << n) % 5": 62,
    "n**9 / n**8": 127,
    "math.factorial(n) % 23": 20,
    "3 * 2**n % 5": 61,
    "n * 10**18 % 7": 9,
    "(2**62 - 1 + n * 2**58) % 11": 16,
    "n**2 + n * n * n * n // (n * n)": 55108,
    "2 ** (n % 5)": None,
}
"""Numbers of a size, and the largest size at which 64 bits hold them, where that is near."""


@pytest.mark.parametrize("text", POWERS_OF_SIZES)
def test_powers_of_sizes_limit_them(text: str, tmp_path: Path) -> None:
    module = module_with(f"{HEAD}        return x + {text}\n", tmp_path, "powers")
    log, most = Log(), POWERS_OF_SIZES[text]
    program = export(module.Model(), (torch.zeros(4),), dynamic_shapes=({0: "n"},), log=log)
    told = [each.message for each in log.findings if each.rule.id == "FXP2002"]
    assert [f"at most {most}." in each for each in told] == [True] * (most is not None)
    session = session_of(program)
    for n in range(1, min(most or 70, 130) + 1):
        (got,) = run_session(session, program, (torch.zeros(n),))
        assert torch.equal(got, module.Model()(torch.zeros(n)))


def test_a_number_beyond_64_bits_is_refused_beside_a_size(tmp_path: Path) -> None:
    module = module_with(f"{HEAD}        return x + n * 10**19 % 7\n", tmp_path, "huge")
    with pytest.raises(ExportError, match="a whole number beyond 64 bits") as caught:
        export(module.Model(), (torch.zeros(4),), dynamic_shapes=({0: "n"},))
    (found,) = [each for each in caught.value.log.findings if each.place is not None]
    assert found.place is not None
    assert found.place.line == LINE


FLOATS_OF_SIZES: Mapping[str, int | None] = {
    "int(1.1**n) % 1000": 458,
    "int(2.0**n) % 7": 62,
    "int(n * 1e17) % 7": 92,
    "int(float(n) ** 9) % 7": 127,
    "int(math.exp(n)) % 1000": 28,
    "int(math.cbrt(n))": 26,
    "math.ceil(math.cbrt(n))": 26,
    "int(math.exp(math.log(n)))": None,
    "int(math.log10(n))": None,
    "int(math.log2(n))": None,
    "math.ceil(math.log(n, 3))": None,
    "int(n**1.5)": None,
    "int(math.log(n) // 0.25)": None,
    "round(math.log1p(n), 1)": None,
}
"""Numbers that a size gives through floats, and the largest size at which the graph is known to have them."""


@pytest.mark.parametrize("text", FLOATS_OF_SIZES)
def test_whole_numbers_of_floats_of_sizes(text: str, tmp_path: Path) -> None:
    module = module_with(f"{HEAD}        return x.double() + {text}\n", tmp_path, "floats")
    log, most = Log(), FLOATS_OF_SIZES[text]
    program = export(module.Model(), (torch.zeros(4),), dynamic_shapes=({0: "n"},), log=log)
    told = [each.message for each in log.findings if each.rule.id == "FXP2002"]
    assert [f"at most {most}." in each for each in told] == [True] * (most is not None)
    session = session_of(program)
    for n in range(1, min(most or 300, 300) + 1):
        (got,) = run_session(session, program, (torch.zeros(n),))
        assert torch.equal(got, module.Model()(torch.zeros(n)))


@pytest.mark.parametrize(
    ("text", "reason"),
    {
        "int(10 ** math.log10(n))": "where they are 4, Python has 4, and the ONNX model, by the last bit, may have 3",
        "int(math.exp(n * 12)) % 7": "where they are 4, this is beyond the 64 bits",
        "n**40 % 7": "a whole number beyond 64 bits for your example",
    }.items(),
)
def test_numbers_that_the_graph_may_not_have_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    module = module_with(f"{HEAD}        return x + {text}\n", tmp_path, "unsure")
    with pytest.raises(ExportError, match=reason) as caught:
        export(module.Model(), (torch.zeros(4),), dynamic_shapes=({0: "n"},))
    (found,) = [each for each in caught.value.log.findings if each.place is not None]
    assert found.place is not None
    assert found.place.line == LINE
    export(module.Model(), (torch.zeros(4),))  # of a size that is known, Python computes it
