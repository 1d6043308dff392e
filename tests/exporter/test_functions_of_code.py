"""The functions of code objects are found among all objects of Python in one search, also those of `gc.freeze`."""

from __future__ import annotations

import gc
from types import FunctionType
from typing import Any

import pytest

from fxport.exporter.capture.control_flow.functions_of_code import functions_of


def first() -> int:
    return 1


def second() -> int:
    return 2


def test_one_search_finds_the_functions_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    other, gone = FunctionType(first.__code__, {}), compile("def f(): pass", "gone", "exec").co_consts[0]
    searches: list[Any] = []
    search = gc.get_referrers
    monkeypatch.setattr(gc, "get_referrers", lambda *codes: searches.append(codes) or search(*codes))
    found = functions_of([first.__code__, second.__code__, gone])
    assert len(searches) == 1
    assert {*found[id(first.__code__)]} == {first, other}
    assert (found[id(second.__code__)], found[id(gone)]) == ([second], [])
    assert functions_of([]) == {}


def test_functions_that_are_frozen_are_found() -> None:
    made = FunctionType(second.__code__, {})
    gc.freeze()
    assert made in functions_of([second.__code__])[id(second.__code__)]
    assert gc.get_freeze_count() == 0
