"""Source files that are not what was imported, and exports that are cut off: right or refused, and all left alone."""

from __future__ import annotations

import builtins
import contextlib
import linecache
import math
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Level, Log
from tests.modules import module_of
from tests.running import assert_same, run_session, session_of

SOURCE = """\
{first}
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 2.0

    def forward(self, x):
        name = "{text}"
        h = torch.zeros(4)
        for row in x:
            if row.sum() > 0:
                h = h + row * self.factor + len(name)
            else:
                h = torch.tanh(h)
        return h
"""

INPUTS = tuple(torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (3, 5, 2))


def written(path: Path, text: str, encoding: str = "utf-8") -> type[nn.Module]:
    """The model of a file with this text."""
    path.write_bytes(text.encode(encoding))
    return module_of(path).Model


def right_or_refused(model: type[nn.Module], path: Path) -> Log | None:
    """The log of the refusal, which names a line of the file; None where the model is exported and right."""
    log = Log()
    try:
        program = export(model(), (INPUTS[0],), dynamic_shapes=({0: "n"},), log=log)
    except ExportError:
        errors = [finding for finding in log.findings if finding.level is Level.ERROR]
        assert any(finding.place is not None and finding.place.path == str(path) for finding in errors), errors
        assert all(not finding.rule.id.startswith("FXP9") for finding in errors), errors
        return log
    session = session_of(program)
    for x in INPUTS:
        assert_same(run_session(session, program, (x,)), [model()(x)])
    return None


@pytest.mark.parametrize(("encoding", "text"), [("utf-8", "größer →"), ("latin-1", "größer"), ("shift_jis", "値")])
def test_encodings(encoding: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"encoded_{encoding}.py"
    model = written(path, SOURCE.format(first=f"# -*- coding: {encoding} -*-", text=text), encoding)
    assert right_or_refused(model, path) is None


EDITS: dict[str, Callable[[str], str]] = {
    "a line above": lambda text: "# a comment\n" + text,
    "another number": lambda text: text.replace("row * self.factor", "row * 10.0"),
    "another test": lambda text: text.replace("row.sum() > 0", "row.sum() < 0"),
    "another arm": lambda text: text.replace("torch.tanh(h)", "torch.cos(h)"),
    "a line inside": lambda text: text.replace("        h = torch", "        x = x + 1\n        h = torch"),
    "another model": lambda text: text.replace("class Model", "class Other"),
    "no Python": lambda text: text.replace("def forward", "def def forward"),
    "no line": lambda _: "",
}


@pytest.mark.parametrize("name", EDITS)
def test_a_file_that_was_edited(name: str, tmp_path: Path) -> None:
    """What was imported counts, and never what the file says now."""
    path = tmp_path / f"{name.replace(' ', '_')}_edited.py"
    model = written(path, SOURCE.format(first="", text="name"))
    path.write_text(EDITS[name](path.read_text(encoding="utf-8")), encoding="utf-8")
    linecache.checkcache()
    right_or_refused(model, path)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "gone.py"
    model = written(path, SOURCE.format(first="", text="name"))
    path.unlink()
    linecache.checkcache()
    right_or_refused(model, path)


class CutOff(nn.Module):
    """Calls a function in a branch of a loop, and at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.count, self.held = 0, [1.0]

    def checked(self, x: Tensor) -> Tensor:
        return x * 0.5

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.seen += 1
        self.held.append(2.0)
        h = torch.zeros(4)
        for row in x:
            if row.sum() > 0:
                h = self.checked(h + row)
        return self.checked(h) * self.held[0]


@contextlib.contextmanager
def cut_off_at(call: int) -> Iterator[list[int]]:
    """Raises KeyboardInterrupt, as Ctrl-C does, at this call of `checked`; gives a list of one: how many there were."""
    count = [0]

    def profiler(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "checked":
            count[0] += 1
            if count[0] == call:
                raise KeyboardInterrupt

    sys.setprofile(profiler)
    try:
        yield count
    finally:
        sys.setprofile(None)


def test_an_export_that_is_cut_off() -> None:
    """At more and more of its calls: what the model and PyTorch hold is what they held before."""
    x = INPUTS[0]
    expected = CutOff()(x)
    cuts = 0
    for call in (1, 2, 3, 5, 8, 13, 10_000):
        model, cut = CutOff(), False
        own, of_class, of_torch = dict(model.__dict__), dict(CutOff.__dict__), functions()
        with cut_off_at(call) as count:
            try:
                export(model, (x,), dynamic_shapes=({0: "n"},))
            except KeyboardInterrupt:
                cut = True
        assert cut is (count[0] == call)
        assert model.__dict__.keys() == own.keys()
        assert (model.seen, model.held, model.count) == (0, [1.0], 0)
        assert all(CutOff.__dict__[name] is value for name, value in of_class.items())
        now = functions()
        assert [name for name, value in of_torch.items() if now.get(name) is not value] == []
        assert torch.equal(model(x), expected)
        cuts += cut
    assert cuts > 2


def functions() -> dict[str, Any]:
    """Every function and class of PyTorch and of the libraries that a capture may patch, by its name."""
    modules = [(name, module) for name, module in sys.modules.items() if name.startswith("torch.") or name == "torch"]
    found = {}
    for name, module in [*modules, ("builtins", builtins), ("math", math)]:
        for key, value in _callables(module):
            found[f"{name}.{key}"] = value
            if issubclass(type(value), type) and value.__module__.startswith("torch"):
                found |= {f"{name}.{key}.{each}": item for each, item in _callables(value)}
    return found


def _callables(owner: object) -> Iterator[tuple[str, Any]]:
    kinds = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, type, property, staticmethod)
    return ((key, value) for key, value in list(vars(owner).items()) if issubclass(type(value), kinds))
