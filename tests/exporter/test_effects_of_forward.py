"""Changes by `forward` to the process, files, hooks, memos and marks of tensors are told at their line, and undone."""

from __future__ import annotations

import contextlib
import decimal
import importlib.util
import io
import random
import sys
import uuid
from collections.abc import Callable
from functools import cache
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from fxport import ExportError, export
from fxport.diagnostics import Log

HERE = Path(__file__)
SYSTEM = random.SystemRandom()


@cache
def doubled(n: int) -> int:
    return n * 2


class OwnRandom(random.Random):
    pass


class Model(nn.Module):
    """A layer, and things that `forward` may read or change."""

    def __init__(self, run: Callable[[Model, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("kept", torch.ones(4), persistent=False)
        self.held = self.layer.register_forward_hook(lambda _, __, y: y * 2)
        self.run = run
        self.text = io.StringIO("1\n2\n3\n4\n5\n6\n7\n")
        self.file = io.TextIOWrapper(io.BytesIO(b"1\n22\n333\n4444\n"))
        self.numbers = map(float, [1, 2, 3, 4, 5, 6])
        self.pairs = zip(range(5), [1, 2, 3, 4, 5], strict=True)
        self.all = chain([1.0, 2.0], range(3))
        self.both = product([1, 2], [3, 4])
        self.own = OwnRandom(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def adds_hook(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    model.layer.register_forward_pre_hook(lambda _, inputs: (inputs[0] + 1,))
    return y


def removes_hook(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    model.held.remove()
    return y


def adds_hook_to_all(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    register_module_forward_hook(lambda *_: None)
    return y


def sets_gradient(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    model.layer.bias.grad = torch.ones(4)
    return y


def freezes(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x) * (2 if model.layer.bias.requires_grad else 3)
    model.layer.requires_grad_(False)
    return y + int(model.layer.bias.requires_grad)


def marks_weight(model: Model, x: Tensor) -> Tensor:
    seen = getattr(model.layer.weight, "seen", 0)
    model.layer.weight.seen = seen + 1
    return model.layer(x) * seen


def counts_hits(_: Model, x: Tensor) -> Tensor:
    doubled(3)
    return x * doubled.cache_info().hits


def reads_line(model: Model, x: Tensor) -> Tensor:
    return x * float(model.text.readline())


def takes_line(model: Model, x: Tensor) -> Tensor:
    return x * len(next(model.file))


def takes_number(model: Model, x: Tensor) -> Tensor:
    return x * next(model.numbers)


def takes_pair(model: Model, x: Tensor) -> Tensor:
    return x * next(model.pairs)[1]


def takes_next(model: Model, x: Tensor) -> Tensor:
    return x * next(model.all)


def takes_both(model: Model, x: Tensor) -> Tensor:
    return x * next(model.both)[1]


def draws_own(model: Model, x: Tensor) -> Tensor:
    return x * model.own.random()


def draws_from_system(_: Model, x: Tensor) -> Tensor:
    return x * SYSTEM.random()


def draws_unseeded(_: Model, x: Tensor) -> Tensor:
    return x * random.Random().random()


def draws_unseeded_of_numpy(_: Model, x: Tensor) -> Tensor:
    return x * np.random.default_rng().random()


def makes_name(_: Model, x: Tensor) -> Tensor:
    return x * (uuid.uuid4().int % 7)


def asks_seed(_: Model, x: Tensor) -> Tensor:
    return x * (torch.initial_seed() % 7)


def opens_file(_: Model, x: Tensor) -> Tensor:
    return x * len(HERE.read_text(encoding="utf-8"))


def seeds(_: Model, x: Tensor) -> Tensor:
    torch.manual_seed(3)
    return x + torch.rand(4)


def seeds_aside(_: Model, x: Tensor) -> Tensor:
    with torch.random.fork_rng():
        noise = torch.rand(4)
    return x + noise


def seeds_generator(_: Model, x: Tensor) -> Tensor:
    torch.default_generator.manual_seed(3)
    return x + torch.rand(4)


class Counting(type):
    reads = 0

    @property
    def scale(cls) -> int:
        cls.reads += 1
        return cls.reads


class Scales(metaclass=Counting):
    pass


def reads_property_of_class(_: Model, x: Tensor) -> Tensor:
    return x * Scales.scale


def sets_default_dtype(_: Model, x: Tensor) -> Tensor:
    y = x * torch.ones(4)
    torch.set_default_dtype(torch.float64)
    return y


def sets_deterministic(_: Model, x: Tensor) -> Tensor:
    y = x * (2 if torch.are_deterministic_algorithms_enabled() else 3)
    torch.use_deterministic_algorithms(True)
    return y


def sets_precision(_: Model, x: Tensor) -> Tensor:
    third = decimal.Decimal(1) / 3
    decimal.getcontext().prec = 2
    return x * float(third)


def sets_recursion_limit(_: Model, x: Tensor) -> Tensor:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 1)
    return x * limit


def hooks_weight(model: Model, x: Tensor) -> Tensor:
    model.layer.weight.register_hook(lambda grad: grad * 2)
    return model.layer(x)


def asks_for_gradient(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    return y * 2 if y.grad_fn is not None else y


def asks_if_leaf(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    return y * 2 if y.is_leaf else y


def asks_if_recorded(model: Model, x: Tensor) -> Tensor:
    y = model.layer(x)
    return y * 2 if y.requires_grad else y


def asks_version(_: Model, x: Tensor) -> Tensor:
    y = x + 1
    return y * y._version


TOLD = (
    (reads_property_of_class, "FXP1018", "cls.reads += 1"),
    (sets_default_dtype, "FXP1018", "set_default_dtype(torch.float64)"),
    (sets_deterministic, "FXP1018", "use_deterministic_algorithms(True)"),
    (sets_precision, "FXP1018", "decimal.getcontext().prec = 2"),
    (sets_recursion_limit, "FXP1018", "sys.setrecursionlimit(limit + 1)"),
    (hooks_weight, "FXP1018", "weight.register_hook"),
    (asks_for_gradient, "FXP1029", "y.grad_fn is not None"),
    (asks_if_leaf, "FXP1029", "if y.is_leaf"),
    (asks_if_recorded, "FXP1029", "if y.requires_grad"),
    (asks_version, "FXP1029", "y._version"),
    (adds_hook, "FXP1018", "register_forward_pre_hook"),
    (removes_hook, "FXP1018", "held.remove()"),
    (adds_hook_to_all, "FXP1018", "register_module_forward_hook(lambda"),
    (sets_gradient, "FXP1018", "bias.grad ="),
    (freezes, "FXP1018", "requires_grad_(False)"),
    (marks_weight, "FXP1018", "weight.seen ="),
    (counts_hits, "FXP1018", "doubled.cache_info()"),
    (reads_line, "FXP1018", "text.readline()"),
    (takes_line, "FXP1018", "next(model.file)"),
    (takes_number, "FXP1018", "next(model.numbers)"),
    (takes_pair, "FXP1018", "next(model.pairs)"),
    (takes_next, "FXP1018", "next(model.all)"),
    (takes_both, "FXP1018", "next(model.both)"),
    (draws_own, "FXP1019", "model.own.random()"),
    (draws_from_system, "FXP1029", "SYSTEM.random()"),
    (draws_unseeded, "FXP1029", "random.Random()"),
    (draws_unseeded_of_numpy, "FXP1029", "default_rng()"),
    (makes_name, "FXP1029", "uuid.uuid4()"),
    (asks_seed, "FXP1029", "torch.initial_seed()"),
    (opens_file, "FXP1029", "HERE.read_text"),
    (seeds, "FXP1003", "torch.manual_seed(3)"),
    (seeds_aside, "FXP1003", "fork_rng()"),
    (seeds_generator, "FXP1003", None),
)


def hooks_for_a_while(model: Model, x: Tensor) -> Tensor:
    seen: list[Tensor] = []
    with model.layer.register_forward_hook(lambda _, __, y: seen.append(y)):
        y = model.layer(x)
    return y + seen[0]


def seeds_and_draws_nothing(_: Model, x: Tensor) -> Tensor:
    torch.manual_seed(3)
    return x + 1


def draws_seeded(_: Model, x: Tensor) -> Tensor:
    return x * random.Random(3).random()


def asks_memo(_: Model, x: Tensor) -> Tensor:
    return x * doubled(4)


def reads_text_of_its_own(_: Model, x: Tensor) -> Tensor:
    return x * float(next(io.StringIO("1\n2\n")))


def writes_log(_: Model, x: Tensor) -> Tensor:
    with open("/dev/null", "a", encoding="utf-8") as log:
        log.write("called")
    return x + 1


SILENT = (hooks_for_a_while, seeds_and_draws_nothing, draws_seeded, asks_memo, reads_text_of_its_own, writes_log)


def told(run: Callable[[Model, Tensor], Tensor]) -> tuple[Model, list[tuple[str, str]]]:
    """The model after its export, and what was told of it: rules, and the lines."""
    model, log = Model(run), Log()
    with contextlib.suppress(ExportError):
        export(model, torch.ones(3, 4), log=log)
    lines = HERE.read_text(encoding="utf-8").splitlines()
    found = [each for each in log.findings if each.rule.id not in ("FXP1004", "FXP1008")]
    assert all(each.place is not None and each.place.path == str(HERE) for each in found)
    return model, [(each.rule.id, lines[each.place.line - 1]) for each in found if each.place is not None]


@pytest.mark.parametrize(("run", "rule", "text"), TOLD, ids=lambda each: getattr(each, "__name__", ""))
def test_it_is_told_at_its_line(run: Callable[[Model, Tensor], Tensor], rule: str, text: str | None) -> None:
    _, found = told(run)
    assert found
    assert {(name, text is None or text in line) for name, line in found} == {(rule, True)}


@pytest.mark.parametrize("run", SILENT)
def test_what_leaves_nothing_is_not_told(run: Callable[[Model, Tensor], Tensor]) -> None:
    assert told(run)[1] == []


def test_hooks_files_and_buffers_are_as_before() -> None:
    model, _ = told(adds_hook)
    assert not model.layer._forward_pre_hooks
    assert isinstance(model._buffers["kept"], Tensor)
    assert model._non_persistent_buffers_set == {"kept"}
    assert not nn.modules.module._global_forward_hooks
    assert told(removes_hook)[0].layer._forward_hooks
    assert told(reads_line)[0].text.readline() == "1\n"
    assert next(told(takes_line)[0].file) == "1\n"


LIBRARY = """
import torch

class Watched(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        if not getattr(self, "_is_watched", False):
            self.layer.register_forward_hook(lambda *_: None)
            setattr(self, "_is_watched", True)
        return self.layer(x)

class Counted(Watched):
    def forward(self, x):
        self.count = getattr(self, "count", 0) + 1
        return self.layer(x)
"""


@pytest.mark.parametrize(("name", "line"), [("Watched", None), ("Counted", "self.count =")])
def test_what_a_library_does_once_is_its_own(tmp_path: Path, name: str, line: str | None) -> None:
    file = tmp_path / "site-packages" / "watching.py"
    file.parent.mkdir()
    file.write_text(LIBRARY, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("watching", file)
    assert spec is not None
    assert spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    model, log = nn.Sequential(getattr(library, name)()), Log()
    export(model, torch.ones(3, 4), log=log)
    found = [LIBRARY.splitlines()[each.place.line - 1] for each in log.findings if each.place is not None]
    assert [line in each for each in found if line] == ([True] if line else [])
    assert len(log.findings) == len(found) == int(line is not None)
