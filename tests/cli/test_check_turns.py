"""Which worker takes which task."""

from __future__ import annotations

from fxport.exporter.checks.items import Item, Task, Terms
from fxport.exporter.checks.turns import Turns


def turns_of(*sources: str) -> Turns:
    items = (Item(id=source, model=source, source=source, opset=20, provider="cpu") for source in sources)
    return Turns([Task(item, Terms()) for item in items])


def taken(turns: Turns, worker: str) -> str | None:
    task = turns.take(worker)
    return None if task is None else task.item.source


def test_a_worker_keeps_its_file() -> None:
    turns = turns_of("a.py:one", "b.py:one", "a.py:two", "b.py:two", "c.py:one")
    assert taken(turns, "first") == "a.py:one"
    assert taken(turns, "second") == "b.py:one"
    assert taken(turns, "second") == "b.py:two"
    assert taken(turns, "second") == "c.py:one"
    assert taken(turns, "first") == "a.py:two"


def test_a_worker_without_a_file_helps_with_the_longest() -> None:
    turns = turns_of("a.py:1", "a.py:2", "b.py:1", "b.py:2", "b.py:3", "b.py:4")
    assert [taken(turns, "first"), taken(turns, "second")] == ["a.py:1", "b.py:1"]
    assert taken(turns, "third") == "b.py:2"
    assert {taken(turns, each) for each in ("first", "second", "third")} == {"a.py:2", "b.py:3", "b.py:4"}
    assert taken(turns, "first") is None


def test_saved_models_are_of_one_kind() -> None:
    turns = turns_of("a.pt2", "m.py:one", "b.pt2")
    assert [taken(turns, "first"), taken(turns, "second"), taken(turns, "first")] == ["a.pt2", "m.py:one", "b.pt2"]
