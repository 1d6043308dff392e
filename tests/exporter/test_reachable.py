"""The Python state that a model's code reaches is found, told by name where it changes, and put back."""

from __future__ import annotations

import functools
import itertools
import random
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from fxport.exporter.capture.holders import MISSING
from fxport.exporter.capture.reachable import reachable
from fxport.exporter.capture.settings import SETTINGS
from fxport.exporter.capture.snapshot import Snapshot, same

CALLS = 0
SEEN: list[Any] = []
STEPS = itertools.count()


@dataclass
class Meter:
    count: int = 0
    marks: dict[str, Any] = field(default_factory=dict)

    def hit(self) -> None:
        self.count += 1


class Slotted:
    __slots__ = ("__hidden", "left", "right")

    def __init__(self) -> None:
        self.left = 1
        self.__hidden = 1

    def touch(self) -> None:
        self.right = self.left
        del self.left
        self.__hidden += 1


METER = Meter()


def counted(x: Any) -> Any:
    global CALLS
    CALLS += 1
    return x


def noted(x: Any, seen: list[Any] = [], *, last: dict[str, Any] = {}) -> Any:  # noqa: B006  # that is the point
    seen.append(x)
    last["x"] = x
    return x


def marked(x: Any) -> Any:
    marked.calls = getattr(marked, "calls", 0) + 1  # type: ignore[attr-defined]
    return x


@functools.cache
def cached(size: int) -> Any:
    return torch.ones(size)


@functools.lru_cache(maxsize=2)
def cached_few(size: int) -> Any:
    return (torch.ones(size),)


def closing() -> Callable[[Any], Any]:
    total, items = 0, [1]

    def add(x: Any) -> Any:
        nonlocal total
        total += 1
        items.append(x)
        return x

    return add


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.depth = 1

    def forward(self, x: Tensor) -> Tensor:
        self.depth += 1
        return x


class Keeper(nn.Module):
    """Holds one thing of each kind; `forward` does to it what it is told to."""

    made: ClassVar[int] = 0

    def __init__(self, act: Callable[[Keeper, Any], Any]) -> None:
        super().__init__()
        self.act = act
        self.layer = Layer()
        self.items = [1, 2]
        self.table: dict[str, Any] = {"a": 1, "b": [3]}
        self.order = OrderedDict(a=1, b=2)
        self.groups: defaultdict[str, list[Any]] = defaultdict(list)
        self.names = {"a"}
        self.window: deque[Any] = deque([1, 2, 3], maxlen=3)
        self.raw = bytearray(b"abc")
        self.grid = np.zeros(2)
        self.meter, self.slotted = Meter(), Slotted()
        self.add = closing()
        self.partial = functools.partial(noted, [0])
        self.draws, self.torch_draws = random.Random(0), torch.Generator()
        self.numbers = np.random.default_rng(0)
        self.simple = types.SimpleNamespace(n=1)
        self.nested = (([5],),)
        self.turns = iter([1, 2, 3])
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        counted, noted, marked, cached, cached_few, METER.hit, SEEN, STEPS  # noqa: B018  # what an act may use
        return self.act(self, x)


def assign(target: Any, name: str, value: Any) -> None:
    setattr(target, name, value)


def hooked(model: Keeper, x: Any) -> None:
    model.layer.register_forward_hook(print)


def with_a_class_attribute(model: Keeper, x: Any) -> None:
    Keeper.made += 1


ACTS: dict[str, tuple[Callable[[Keeper, Any], Any], dict[str, tuple[Any, Any]]]] = {
    "attribute": (lambda m, x: assign(m, "later", 1), {"later": (MISSING, 1)}),
    "attribute of a layer": (lambda m, x: m.layer(x), {"layer.depth": (1, 2)}),
    "layer": (lambda m, x: assign(m, "layer", None), {"layer": (..., None)}),
    "buffer": (lambda m, x: assign(m, "total", None), {"total": (..., None)}),
    "hook": (hooked, {}),
    "list": (lambda m, x: m.items.append(7), {"items[2]": (MISSING, 7)}),
    "list, shorter": (lambda m, x: m.items.pop(0), {"items[0]": (1, 2), "items[1]": (2, MISSING)}),
    "dict": (lambda m, x: m.table.update(a=2), {"table['a']": (1, 2)}),
    "list in a dict": (lambda m, x: m.table["b"].clear(), {"table['b'][0]": (3, MISSING)}),
    "ordered dict": (lambda m, x: m.order.popitem(last=False), {"order['a']": (1, MISSING)}),
    "default dict": (lambda m, x: m.groups["k"], {"groups['k']": (MISSING, [])}),
    "set": (lambda m, x: m.names.discard("a"), {"names": ("a", MISSING)}),
    "deque": (lambda m, x: m.window.append(4), {"window[0]": (1, 2), "window[1]": (2, 3), "window[2]": (3, 4)}),
    "bytes": (lambda m, x: m.raw.extend(b"d"), {"raw": (b"abc", b"abcd")}),
    "array": (lambda m, x: m.grid.__setitem__(0, 1.0), {"grid": (..., ...)}),
    "object": (lambda m, x: m.meter.hit(), {"meter.count": (0, 1)}),
    "dict of an object": (lambda m, x: m.meter.marks.update(k=1), {"meter.marks['k']": (MISSING, 1)}),
    "slots": (
        lambda m, x: m.slotted.touch(),
        {"slotted.left": (1, MISSING), "slotted.right": (MISSING, 1), "slotted._Slotted__hidden": (1, 2)},
    ),
    "namespace": (lambda m, x: assign(m.simple, "n", 2), {"simple.n": (1, 2)}),
    "tuple": (lambda m, x: m.nested[0][0].append(6), {"nested[0][0][1]": (MISSING, 6)}),
    "closure": (lambda m, x: m.add(9), {"total": (0, 1), "items[1]": (MISSING, 9)}),
    "partial": (lambda m, x: m.partial.args[0].append(1), {"partial[0][1]": (MISSING, 1)}),
    "random": (lambda m, x: m.draws.random(), {"draws": (..., ...)}),
    "generator": (lambda m, x: torch.rand(1, generator=m.torch_draws), {"torch_draws": (..., ...)}),
    "numpy": (lambda m, x: m.numbers.random(), {"numbers": (..., ...)}),
    "global": (lambda m, x: counted(x), {"CALLS": (0, 1)}),
    "global list": (lambda m, x: SEEN.append(8), {"SEEN[0]": (MISSING, 8)}),
    "global object": (lambda m, x: METER.hit(), {"METER.count": (0, 1)}),
    "default argument": (lambda m, x: noted(8), {"seen[0]": (MISSING, 8), "last['x']": (MISSING, 8)}),
    "function": (lambda m, x: marked(x), {"marked.calls": (MISSING, 1)}),
    "class": (with_a_class_attribute, {"Keeper.made": (0, 1)}),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_change_is_named_and_undone(act: str) -> None:
    function, expected = ACTS[act]
    model = Keeper(function)
    before = Snapshot.of({"": model})
    assert list(before.changes()) == []
    model(torch.ones(2))
    found = {change.name: (change.before, change.after) for change in before.changes()}
    assert len(found) == 1 if act == "hook" else found.keys() == expected.keys()
    for name, (was, has) in expected.items():
        assert was is ... or found[name][0] == was
        assert has is ... or found[name][1] == has
    before.restore()
    assert list(before.changes()) == []
    assert len(Snapshot.of({"": model}).held) == len(before.held)
    model(torch.ones(2))
    again = {change.name: (change.before, change.after) for change in before.changes()}
    assert len(again) == len(found)
    assert all(was is ... or has is ... or again[name] == found[name] for name, (was, has) in expected.items())
    before.restore()


def test_the_order_of_a_dict_is_undone() -> None:
    held = {"table": {"a": 1, "b": 2}, "order": OrderedDict(a=1, b=2), "window": deque([1, 2], maxlen=2)}
    before = Snapshot.of({"held": held})
    held["table"]["a"] = held["table"].pop("a")
    held["order"].move_to_end("a")
    held["window"].rotate()
    before.restore()
    assert [*held["table"]] == [*held["order"]] == ["a", "b"]
    assert held["window"] == deque([1, 2])
    assert held["window"].maxlen == 2


class Uncounted(tuple[Any, ...]):
    """As the quantum numbers of e3nn, which have no length for anybody."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError


def test_a_tuple_with_a_length_of_its_own_is_looked_into() -> None:
    model = Keeper(lambda m, x: m.marks[1].append(x))
    model.marks = Uncounted((0, [1]))
    before = Snapshot.of({"": model})
    model(torch.ones(2))
    assert [change.name for change in before.changes()] == ["marks[1][1]"]


def test_an_iterator_is_told_and_stays() -> None:
    model = Keeper(lambda m, x: (next(m.turns), next(STEPS)))
    before = Snapshot.of({"": model})
    model(torch.ones(2))
    assert {change.name: (change.before, change.after) for change in before.changes()} == {
        "turns": (3, 2),
        "STEPS": ("count(0)", "count(1)"),
    }
    before.restore()
    assert [change.name for change in before.changes()] == ["turns", "STEPS"]


@pytest.mark.parametrize("cache", [cached, cached_few])
def test_a_memo_that_has_grown_is_emptied(cache: Any) -> None:
    cache.cache_clear()
    kept = cache(3)
    model = Keeper(lambda m, x: cache(3))
    before = Snapshot.of({"": model})
    model(torch.ones(2))
    before.restore()
    assert cache(3) is kept  # it had it already
    model = Keeper(lambda m, x: cache(4))
    with FakeTensorMode():
        model(torch.ones(2))
    before.restore()
    assert list(before.changes()) == []
    assert type(pytree.tree_leaves(cache(4))[0]) is Tensor


def test_what_stays_behind_is_told() -> None:
    def echo() -> Any:
        kept = None
        while True:
            kept = yield kept

    echoing = echo()
    next(echoing)
    model = Keeper(lambda m, x: echoing.send(x))
    before = Snapshot.of({"": model})
    model(1)
    before.restore()
    assert list(before.left_over()) == []
    with FakeTensorMode():
        model(torch.ones(2))
    before.restore()
    assert [holder.name for holder in before.left_over()] == ["echoing"]


def test_state_of_another_python_module() -> None:
    state = types.ModuleType("state_of_a_test")
    exec("count = 0\nseen = []\ndef bump():\n    global count\n    count += 1\n    seen.append(count)", vars(state))
    sys.modules["state_of_a_test"] = state
    try:
        namespace: dict[str, Any] = {"__name__": "user", "nn": nn}
        exec(
            "import state_of_a_test as s\n"
            "class Model(nn.Module):\n"
            "    def forward(self, x):\n"
            "        import state_of_a_test\n"
            "        s.bump()\n"
            "        state_of_a_test.seen.append(5)\n"
            "        s.later = 1\n"
            "        return x\n",
            namespace,
        )
        model = namespace["Model"]()
        before = Snapshot.of({"": model})
        model(1)
        found = {change.name: (change.before, change.after) for change in before.changes()}
        assert found == {
            "state_of_a_test.count": (0, 1),
            "state_of_a_test.seen[0]": (MISSING, 1),
            "state_of_a_test.seen[1]": (MISSING, 5),
            "state_of_a_test.later": (MISSING, 1),
        }
        before.restore()
        assert (state.count, state.seen, hasattr(state, "later")) == (0, [], False)  # type: ignore[attr-defined]
    finally:
        del sys.modules["state_of_a_test"]


def test_a_decorator_of_pytorch_is_seen_through() -> None:
    calls = []

    @torch.no_grad()
    def inner(x: Any) -> Any:
        calls.append(x)
        return x

    before = Snapshot.of({"inner": inner})
    inner(1)
    assert [change.name for change in before.changes()] == ["calls[0]"]


def test_what_code_does_not_speak_of_is_not_looked_into() -> None:
    class Big(nn.Module):
        def save(self) -> None:
            METER.hit()

        def forward(self, x: Tensor) -> Tensor:
            return x

    names = {holder.name for holder, _ in Snapshot.of({"": Big()}).held}
    assert "METER" not in names


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        (1, True, False),
        (1000, int("1000"), True),
        ((1, (2.0, "a")), (1, (2.0, "".join("a"))), True),
        ((1,), (2,), False),
        ([], [], False),
    ],
)
def test_equal_scalars_are_the_same(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal


class Asserting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[0] != 5
        return x.sin()


def test_an_assert_that_pytest_has_rewritten_reaches_no_test_session() -> None:
    model = Asserting()
    assert any(name.startswith("@pytest") for name in model.forward.__code__.co_names)
    assert len(reachable({"": model})) < 20 + len(SETTINGS)
