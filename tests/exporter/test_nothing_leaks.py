"""No object of the user's holds anything of a capture afterwards, and each attempt of it begins with the same state."""

from __future__ import annotations

import functools
import gc
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxport import ExportError, export
from fxport.diagnostics import Log
from fxport.exporter.capture.snapshot import CAPTURED
from tests.exporter.test_capture import line_of
from tests.running import assert_same, run_exported
from tests.sampling import marks_of, sampled

LATEST: Any = None
SEEN: list[Any] = []
CALLS = 0


class Registry:
    """A plain class, and one object of it that all share."""

    last: Any = None

    def __init__(self) -> None:
        self.items: dict[str, Any] = {}

    def put(self, x: Any) -> None:
        self.items["x"] = x
        Registry.last = x


REGISTRY = Registry()


def in_a_global(x: Tensor) -> None:
    global LATEST
    LATEST = x


def in_a_global_list(x: Tensor) -> None:
    SEEN.append(x)


def in_a_default(x: Tensor, seen: deque[Any] = deque(maxlen=2)) -> None:  # noqa: B006  # that is the point
    seen.append(x)


def in_a_keyword(x: Tensor, *, seen: dict[str, Any] = {}) -> None:  # noqa: B006
    seen["x"] = (x, x.shape[0])


def in_an_object(x: Tensor) -> None:
    REGISTRY.put(x)


def in_an_attribute_of_a_function(x: Tensor) -> None:
    in_an_attribute_of_a_function.last = x  # type: ignore[attr-defined]


@functools.cache
def ramp(size: int) -> Tensor:
    return torch.arange(float(size))


def in_a_cache(x: Tensor) -> None:
    x.add(ramp(x.shape[-1]))


def closed() -> Callable[[Tensor], None]:
    kept: list[Any] = []
    last = None

    def keep(x: Tensor) -> None:
        nonlocal last
        last = x
        kept.append(x)

    return keep


in_a_closure = closed()
KEEPERS = (
    *(in_a_global, in_a_global_list, in_a_default, in_a_keyword, in_an_object, in_an_attribute_of_a_function),
    *(in_a_cache, in_a_closure),
)


class Keeping(nn.Module):
    """Hands what it computes to a function that keeps it, and then goes on, or not."""

    def __init__(self, keep: Callable[[Tensor], None], end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.keep, self.end = keep, end

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        self.keep(y)
        if y.sum() > 0:
            y = y + 1
        return self.end(y)


def interrupted(x: Tensor) -> Tensor:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Undoes what calls in eager PyTorch leave."""
    yield
    global LATEST, CALLS
    LATEST, CALLS, REGISTRY.items, Registry.last, METER.hits = None, 0, {}, None, 0
    SEEN.clear()


ENDS: dict[str, tuple[Callable[[Tensor], Tensor], type[BaseException] | None]] = {
    "exported": (lambda x: x, None),
    "captured and refused": (lambda x: x.to_sparse().to_dense(), ExportError),
    "refused": (lambda x: torch.from_numpy(x.numpy()), ExportError),
    "interrupted": (interrupted, KeyboardInterrupt),
}


def kept_by_anyone() -> Iterator[Any]:
    """What the keepers of this file hold, as the garbage collector sees it."""
    level: list[Any] = [SEEN, REGISTRY, Registry, LATEST, ramp, *KEEPERS]
    seen: set[int] = set()
    while level:
        level = [each for each in gc.get_referents(*level) if id(each) not in seen and each is not globals()]
        level = [each for each in level if not isinstance(each, (type, type(gc), type(kept_by_anyone)))]
        seen |= {*map(id, level)}
        yield from level


def leaks() -> Iterator[Any]:
    """Each keeper and each end in the usual run; `--slow` has all pairs."""
    keepers = {each.__name__: each for each in KEEPERS}
    pairs = [(keep, end) for keep in keepers for end in ENDS]
    taken = sampled(pairs, "-".join, lambda pair: pair, one_in=4)
    for (keep, end), is_taken in zip(pairs, taken, strict=True):
        yield pytest.param(keepers[keep], end, id=f"{keep}-{end}", marks=marks_of(is_taken))


@pytest.mark.parametrize(("keep", "end"), list(leaks()))
def test_nothing_of_a_capture_is_kept(keep: Callable[[Tensor], None], end: str) -> None:
    function, error = ENDS[end]
    ramp.cache_clear()
    model, x = Keeping(keep, function), torch.ones(4, 3)
    if error is None:
        export(model, (x,), dynamic_shapes=({0: "n"},))
    else:
        with pytest.raises(error):
            export(model, (x,), dynamic_shapes=({0: "n"},))
    assert [type(each) for each in kept_by_anyone() if isinstance(each, CAPTURED)] == []
    assert (LATEST, SEEN, REGISTRY.items, Registry.last) == (None, [], {}, None)
    if end != "interrupted":
        assert type(model(x)) is Tensor
    assert type(ramp(3)) is Tensor


def echoing() -> Iterator[Any]:
    kept = None
    while True:
        kept = yield kept


class Resumed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.echo: Any = echoing()
        next(self.echo)

    def forward(self, x: Tensor) -> Tensor:
        return self.echo.send(x * 2) + 1  # kept


class ResumedAndRefused(Resumed):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(super().forward(x).numpy())


@pytest.mark.parametrize("make", [Resumed, ResumedAndRefused])
def test_what_cannot_be_taken_back_is_an_error(make: type[Resumed]) -> None:
    log = Log()
    with pytest.raises(ExportError):
        export(make(), (torch.ones(3),), log=log)
    (left,) = (finding for finding in log.findings if finding.rule.id == "FXP1032")
    assert left.facts["name"] == "echo"


class Counted(nn.Module):
    """Needs a second attempt, which must see what the first has seen."""

    def forward(self, x: Tensor) -> Tensor:
        global CALLS
        CALLS += 1  # counted
        if x.sum() > 0:
            x = x + 1
        return x * CALLS


def test_each_attempt_begins_with_the_same_state() -> None:
    global CALLS
    x = torch.ones(3)
    (found,) = run_exported(Counted(), [(x,)])
    assert CALLS == 0
    assert_same(found, [(x + 1) * 1])


STATE = {"n": 1}


class Meter:
    def __init__(self) -> None:
        self.hits = 0


METER = Meter()


def counting() -> Callable[[Tensor], Tensor]:
    turns = 0

    def scaled(x: Tensor) -> Tensor:
        nonlocal turns
        turns += 1  # in a closure
        return x * turns

    return scaled


class Anywhere(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scaled = counting()
        self.meter = Meter()

    def forward(self, x: Tensor) -> Tensor:
        METER.hits += 1  # in a global object
        self.meter.hits += 1  # in an object
        STATE["n"] += 1  # in a dict
        SEEN.append(x)  # in a list
        return self.scaled(x)


def test_state_of_all_kinds_is_told_at_its_line() -> None:
    log = Log()
    export(Anywhere(), (torch.ones(3),), log=log)
    found = {
        f.facts["name"]: (f.facts["value"], f.place.line) for f in log.findings if f.rule.id == "FXP1018" and f.place
    }
    forward = Anywhere.forward
    assert found == {
        "METER.hits": (0, line_of(forward, "# in a global object")),
        "meter.hits": (0, line_of(forward, "# in an object")),
        "STATE['n']": (1, line_of(forward, "# in a dict")),
        "SEEN": ("a container of other entries", line_of(forward, "# in a list")),
        "turns": (0, line_of(counting, "# in a closure")),
    }
    assert (METER.hits, STATE, SEEN) == (0, {"n": 1}, [])
