"""Conditions on sizes that hold near the example and not far from it: kept as branches, or told; never lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

from fxport import Log, export
from fxport.diagnostics import Level
from tests.modules import module_with
from tests.running import run_session, session_of

HEAD = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
"""

BRANCHES: Mapping[str, tuple[int, int]] = {
    "n * n > 100000": (317, 4),
    "n**3 > 10**9": (1001, 4),
    "3 * n + 7 > 2000": (665, 4),
    "(n // 7) * (n // 3) > 5000": (330, 4),
    "n**0.5 > 25": (626, 4),
    "n * 0.01 > 5": (501, 4),
    "n == 500": (500, 4),
    "n == 5000": (5000, 4),
    "n % 512 == 0": (512, 4),
    "n % 1000 == 999": (999, 4),
    "n * n > 10**9": (31623, 4),
    "n * n > 2**31": (46341, 4),
    "n * m > 10**8": (20000, 5001),
    "n * m > 10000": (5000, 4),
    "n > 50 * m": (201, 4),
    "n + m > 1000": (999, 4),
    "m > n * n": (6, 64),
    "n // 64 > m": (400, 5),
    "n == 100 * m": (400, 4),
    "abs(n - 100 * m) < 5": (402, 4),
    "n // 100 == 77": (7750, 4),
    "n * 7 % 50000 == 3": (21429, 4),
    "3 * n == 30000": (10000, 4),
}
"""Conditions that do not hold for the example, 6 and 4, and sizes for which they do."""


def model_of(body: str, folder: Path, name: str) -> nn.Module:
    return module_with(f"{HEAD}{body}", folder, name).Model()


@pytest.mark.parametrize("condition", BRANCHES)
def test_a_branch_that_is_taken_far_from_the_example(condition: str, tmp_path: Path) -> None:
    body = f"        if {condition}:\n            x = x * 2\n        return x + y.sum()\n"
    model, log = model_of(body, tmp_path, "far"), Log()
    program = export(model, (torch.ones(6), torch.ones(4)), dynamic_shapes=({0: "n"}, {0: "m"}), log=log)
    assert not [each for each in log.findings if each.rule.id in ("FXP2001", "FXP2002", "FXP2003")]
    session, (n, m) = session_of(program), BRANCHES[condition]
    for sizes in ((6, 4), (n, m), (n - 1, m), (n + 1, m)):
        inputs = tuple(map(torch.ones, sizes))
        (got,) = run_session(session, program, inputs)
        assert torch.equal(got, model(*inputs))


LIMITS: Mapping[str, str | None] = {
    "assert n * n < 10**6": "at most 999.",
    "if n * n > 100000:\n            raise ValueError('too long')": "at most 316.",
    "if n * n > 10**10:\n            raise ValueError('too long')": "at most 100000.",
    "assert n != 700": "at most 699.",
    "assert n * n > 0": None,
    "assert n + m > 0": None,
}
"""Statements that refuse some sizes of the first input, and what is told of them."""


@pytest.mark.parametrize("statement", LIMITS)
def test_a_limit_far_from_the_example_is_told(statement: str, tmp_path: Path) -> None:
    model, log = model_of(f"        {statement}\n        return x + y.sum()\n", tmp_path, "limit"), Log()
    export(model, (torch.ones(6), torch.ones(4)), dynamic_shapes=({0: "n"}, {0: "m"}), log=log)
    told, expected = [each.message for each in log.findings if each.rule.id == "FXP2002"], LIMITS[statement]
    assert [each.endswith(f"{expected}") for each in told] == [True] * (expected is not None)


@pytest.mark.parametrize("condition", ["n <= 50 * m", "n % (m * 100) != 0", "n * m != 2000", "n * n + m * m < 10**7"])
def test_a_relation_that_is_broken_far_from_the_example_is_told(condition: str, tmp_path: Path) -> None:
    model, log = model_of(f"        assert {condition}\n        return x + y.sum()\n", tmp_path, "relation"), Log()
    export(model, (torch.ones(6), torch.ones(4)), dynamic_shapes=({0: "n"}, {0: "m"}), log=log)
    assert [each.rule.id for each in log.findings if each.rule.id.startswith("FXP2")] == ["FXP2003"]


def test_a_limit_of_elements_that_32_bits_count_is_a_note(tmp_path: Path) -> None:
    """As in the upsampling of diffusers, whose kernels had such limits."""
    head = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
    body = "        if x.numel() * 64 > 2**31:\n            x = x.contiguous()\n        return x * 2\n"
    model, log = module_with(f"{head}{body}", tmp_path, "elements").Model(), Log()
    export(model, (torch.ones(6, 4),), dynamic_shapes=({0: "n", 1: "m"},), log=log)
    assert [each.level for each in log.findings] == [Level.NOTE] * len(log.findings)


def test_a_slice_that_ends_before_its_axis_far_from_the_example_is_told(tmp_path: Path) -> None:
    model, log = model_of("        return x[: 64 * m]\n", tmp_path, "slice"), Log()
    export(model, (torch.ones(6), torch.ones(4)), dynamic_shapes=({0: "n"}, {0: "m"}), log=log)
    assert [each.rule.id for each in log.findings] == ["FXP2003"]


WRITES: Mapping[str, int] = {
    "y = x[:, :300].contiguous()\n        y.add_(1)\n        return x * 2": 300,
    "y = x[:, :300].reshape(-1)\n        y.add_(1)\n        return x * 2": 300,
    "y = x[:, ::max(x.shape[1] // 200, 1)].contiguous()\n        y.mul_(2)\n        return x + 1": 399,
    "y = x[:, :500]\n        return x * 3 if y.is_contiguous() else x": 500,
    "y = x[:, :500]\n        return x * 3 if not y.is_contiguous() else x": 500,
}
"""Bodies for which a tensor is another one's memory up to a size, and the size."""


@pytest.mark.parametrize("body", WRITES)
def test_memory_that_is_shared_up_to_a_size_is_told(body: str, tmp_path: Path) -> None:
    head = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        "
    model, log, most = module_with(f"{head}{body}\n", tmp_path, "memory").Model(), Log(), WRITES[body]
    program = export(model, (torch.rand(3, 6),), dynamic_shapes=({1: "n"},), log=log)
    (told,) = [each.message for each in log.findings if each.rule.id == "FXP2002"]
    assert told.endswith(f"at most {most}.")
    session = session_of(program)
    for n in (2, 6, 7, 256, most - 1, most):
        x = torch.rand(3, n)
        got, *_ = run_session(session, program, (x.clone(),))
        torch.testing.assert_close(got, model(x.clone()))


@pytest.mark.timeout(60)
def test_powers_of_sizes_that_grow_fast_are_tried_in_no_time(tmp_path: Path) -> None:
    """A power of products has a million digits soon. No power of two leaves 5: nothing is to be told."""
    body = "        if 2 ** (n * m) % 7 == 5:\n            x = x * 2\n        return x + y.sum()\n"
    model, log = model_of(body, tmp_path, "powers"), Log()
    export(model, (torch.ones(6), torch.ones(4)), dynamic_shapes=({0: "n"}, {0: "m"}), log=log)
    assert not log.findings
