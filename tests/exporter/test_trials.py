"""Runs of a model at other sizes: errors that it catches are those of PyTorch, and what changes with a size is told."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

from fxport import ExportError, Log, Options, export
from fxport.diagnostics import Level
from fxport.exporter.capture import eager
from tests.modules import module_with
from tests.running import run_session, session_of

HEAD = """\
import contextlib
import math

import numpy as np
import torch
from torch.export import Dim
from torch.nn import functional as F

TABLE = {{20: 5.0, 40: 3.0}}


class Model(torch.nn.Module):
    def forward(self, x):
        n, k = x.shape[1], 1.0
        {line}
        {handler}
        return x * k


def with_default(function, *args):
    try:
        return function(*args)
    except Exception:
        return 1.0
"""

ONLY_CAPTURED: Mapping[str, tuple[str, str]] = {
    "a size as a key": ("try: k = TABLE[n]", "except Exception: pass"),
    "a logarithm of NumPy": ("try: k = float(np.log2(n))", "except TypeError: k = 7.0"),
    "suppressed": ("with contextlib.suppress(Exception):", "    k = len({n, 3}) * 2.0"),
    "in a function": ("k = with_default(TABLE.get, n)", ""),
}
"""Statements by a name: what raises an error in a capture alone, and is caught."""


@pytest.mark.parametrize("name", ONLY_CAPTURED)
def test_errors_of_the_capture_alone_are_no_errors_of_the_model(name: str, tmp_path: Path) -> None:
    line, handler = ONLY_CAPTURED[name]
    module = module_with(HEAD.format(line=line, handler=handler), tmp_path, "captured")
    with pytest.raises(ExportError) as caught:
        export(module.Model(), (torch.ones(2, 20),), dynamic_shapes=({1: "n"},))
    (found,) = [each for each in caught.value.log.findings if each.level is Level.ERROR]
    assert "which the model catches; in PyTorch it raises none" in found.message
    assert found.place is not None
    assert Path(found.place.path).parent == tmp_path


BY_SIZE: Mapping[str, tuple[str, str, int, str]] = {
    "a view of a part": (
        "try: k = x[:, :100].view(-1).sum()",
        "except RuntimeError: k = x[:, :100].sum() * 2",
        20,
        "at most 100",
    ),
    "a root": ("try: k = math.sqrt(300 - n)", "except ValueError: k = 0.0", 20, "at most 300"),
    "an exponential": ("try: k = math.exp(n)", "except OverflowError: k = 0.0", 20, "at most 709"),
    "a check": ("try: torch._check_value(n < 100)", "except ValueError: k = 0.5", 20, "at most 99"),
    "the largest of none": ("try: k = x[:, 100:].max()", "except RuntimeError: k = 0.5", 128, "at least 101"),
    "an image of none": (
        "try: k = F.interpolate(x[None], scale_factor=0.01).sum()",
        "except RuntimeError: k = 0.5",
        200,
        "at least 100",
    ),
}
"""Statements by a name: what raises an error at some sizes, the example's size, and the sizes that are left."""


@pytest.mark.parametrize("name", BY_SIZE)
def test_sizes_at_which_the_model_catches_other_errors_are_told(name: str, tmp_path: Path) -> None:
    line, handler, size, left = BY_SIZE[name]
    module = module_with(HEAD.format(line=line, handler=handler), tmp_path, "sized")
    log = Log()
    program = export(module.Model(), (torch.randn(2, size),), dynamic_shapes=({1: "n"},), log=log)
    (told,) = [each.message for each in log.findings if each.rule.id == "FXP2002"]
    assert told.endswith(f"{left}.")
    word, limit = left.rsplit(" ", 1)
    edge = int(limit)
    session = session_of(program)
    for n in (size, edge, edge - 1 if word == "at most" else edge + 1):
        x = torch.randn(2, n).double().float()
        (got,) = run_session(session, program, (x,))
        torch.testing.assert_close(got, module.Model()(x))


CAUGHT_ALIKE: Mapping[str, tuple[str, str]] = {
    "an import": ("try: import no_such_module", "except ImportError: k = 3.0"),
    "an attribute": ("try: k = self.absent", "except AttributeError: k = 3.0"),
    "a key of none": ("try: k = TABLE['none']", "except KeyError: k = 3.0"),
    "nothing": ("try: k = TABLE[20]", "except KeyError: k = 3.0"),
}


@pytest.mark.parametrize(("name", "strategy"), [*((each, None) for each in CAUGHT_ALIKE), ("a key of none", "strict")])
def test_errors_that_pytorch_has_too_are_part_of_the_model(name: str, strategy: str | None, tmp_path: Path) -> None:
    line, handler = CAUGHT_ALIKE[name]
    module = module_with(HEAD.format(line=line, handler=handler), tmp_path, "alike")
    log, options = Log(), Options(strategy=strategy)
    program = export(module.Model(), (torch.ones(2, 20),), dynamic_shapes=({1: "n"},), log=log, options=options)
    assert not [each for each in log.findings if each.level is not Level.NOTE]
    x = torch.randn(2, 7)
    (got,) = run_session(session_of(program), program, (x,))
    assert torch.equal(got, module.Model()(x))


READS: Mapping[str, str] = {
    "is": "k = 2.0 if (y := x[:, :100]).contiguous() is y else 3.0",
    "a view": "k = 2.0 if x[:, :100].reshape(-1)._is_view() else 3.0",
    "the base of a view": "k = 2.0 if x[:, :100].reshape(-1)._base is x else 3.0",
    "strides of a copy": "k = x[:, :100].contiguous().stride(0)",
}
"""Statements by a name: what reads how a tensor lies in memory, which is otherwise beyond 100 columns."""


@pytest.mark.parametrize("name", READS)
def test_what_is_read_of_memory_is_right_or_left_out(name: str, tmp_path: Path) -> None:
    module = module_with(HEAD.format(line=READS[name], handler=""), tmp_path, "reading")
    log = Log()
    program = export(module.Model(), (torch.randn(2, 20),), dynamic_shapes=({1: "n"},), log=log)
    told = [each.message for each in log.findings if each.rule.id == "FXP2002"]
    assert [each.endswith("at most 100.") for each in told] == [True] * len(told)
    session = session_of(program)
    for n in (20, 99, 100) if told else (20, 99, 100, 101, 300):
        x = torch.randn(2, n)
        (got,) = run_session(session, program, (x,))
        torch.testing.assert_close(got, module.Model()(x))


BELOW_AUTOGRAD = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        slope = torch.func.grad(lambda each: (each * each).sum())(y)
        flat = y.t().reshape(-1)
        return slope, flat if flat._is_view() else flat * 2
"""


def test_what_is_read_of_memory_below_autograd_is_left_out(tmp_path: Path) -> None:
    log = Log()
    export(
        module_with(BELOW_AUTOGRAD, tmp_path, "below").Model(),
        (torch.randn(4, 3),),
        dynamic_shapes=({0: "n"},),
        log=log,
    )
    assert [each.message.endswith("at least 2.") for each in log.findings if each.rule.id == "FXP2002"] == [True]


GIVEN_BACK = """\
import random
import threading

import torch
from torch.export import Dim


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(4), requires_grad=False)
        self.lock = threading.Lock()

    def forward(self, x):
        try:
            k = {"a": 1.0}["b"]
        except KeyError:
            k = 3.0
        self.w.add_(1)
        k = k + random.random() if x.contiguous() is x else k + torch.rand(())
        return x * k + self.w
"""


def test_the_model_and_the_process_are_left_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a model whose parameters are too large to be copied each time, and one that holds what has no copy."""
    monkeypatch.setattr(eager, "MOST_BYTES", 8)
    model = module_with(GIVEN_BACK, tmp_path, "given_back").Model()
    before = random.getstate(), torch.random.get_rng_state()
    export(model, (torch.ones(2, 4),), dynamic_shapes=({0: "n"},))
    assert torch.equal(model.w, torch.zeros(4))
    assert random.getstate() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


IN_AN_ARM = "if x.sum() > 0:\n            try: k = TABLE['none']"


@pytest.mark.parametrize("sign", [-1, 1])
def test_errors_caught_in_an_arm_are_part_of_it(sign: int, tmp_path: Path) -> None:
    handler = "    except KeyError: k = 3.0"
    module = module_with(HEAD.format(line=IN_AN_ARM, handler=handler), tmp_path, "arm")
    log = Log()
    program = export(module.Model(), (sign * torch.ones(2, 20),), dynamic_shapes=({1: "n"},), log=log)
    assert not [each for each in log.findings if each.level is not Level.NOTE]
    session = session_of(program)
    for x in (torch.ones(2, 3), -torch.ones(2, 5)):
        (got,) = run_session(session, program, (x,))
        assert torch.equal(got, module.Model()(x))


def test_a_model_with_a_branch_on_data_is_compared_at_other_sizes(tmp_path: Path) -> None:
    """Compare results of a model with branches on data: the errors that it catches may depend on the branch."""
    line, handler, size, left = BY_SIZE["a root"]
    branch = "x = x * 2 if x.sum() > 0 else -x"
    module = module_with(HEAD.format(line=f"{branch}\n        {line}", handler=handler), tmp_path, "branching")
    log = Log()
    export(module.Model(), (torch.randn(2, size),), dynamic_shapes=({1: "n"},), log=log)
    (told,) = [each.message for each in log.findings if each.rule.id == "FXP2002"]
    assert told.endswith(f"{left}.")


@pytest.mark.parametrize(("rows", "dim"), [(0, Dim.AUTO), (6, Dim("n", min=6))])
def test_sizes_that_no_call_has_are_not_tried(rows: int, dim: Any, tmp_path: Path) -> None:
    """An example without rows, of which nothing can be repeated; and a dimension with a bound."""
    line, handler = CAUGHT_ALIKE["a key of none"]
    module = module_with(HEAD.format(line=line, handler=handler), tmp_path, "untried")
    program = export(module.Model(), (torch.ones(rows, 20),), dynamic_shapes=({0: dim},))
    (got,) = run_session(session_of(program), program, (torch.ones(rows, 20),))
    assert torch.equal(got, 3 * torch.ones(rows, 20))


UNLIKE = "if hasattr(x, 'fake_mode'): k = 2.0"


def test_what_cannot_be_compared_at_other_sizes_is_told(tmp_path: Path) -> None:
    """The program does not give the model's results for the example, so that other sizes say nothing of its memory."""
    module = module_with(HEAD.format(line=UNLIKE, handler="if x.t().is_contiguous(): k = 3.0"), tmp_path, "unlike")
    log = Log()
    export(module.Model(), (torch.ones(2, 20),), dynamic_shapes=({1: "n"},), log=log)
    (told,) = [each for each in log.findings if each.rule.id == "FXP1035"]
    assert "reads how tensors lie in memory" in told.message
    assert told.place is not None
    assert told.place.snippet == "if x.t().is_contiguous(): k = 3.0"
