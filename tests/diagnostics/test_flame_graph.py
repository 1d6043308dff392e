"""Flame graphs: documents of speedscope, whose seconds are where the time went."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from fxport.diagnostics.flame_graph import SCHEMA, flame_graph


def busy(seconds: float) -> float:
    """Run for so long at least; returns how long it was."""
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        pass
    return time.perf_counter() - start


def longer(seconds: float) -> None:
    busy(seconds)


def shorter() -> float:
    return busy(0.1)


def seconds_in(document: dict[str, Any], function: str) -> float:
    """Return the seconds in which a function, or what it calls, was seen."""
    (profile,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    pairs = zip(profile["samples"], profile["weights"], strict=True)
    return sum(weight for sample, weight in pairs if function in [names[each] for each in sample])


def test_time_is_told_by_function(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    with flame_graph(path, "a run"):
        longer(4 * shorter())  # which takes longer than it should on a busy machine
    document = json.loads(path.read_text())
    assert (document["$schema"], document["name"]) == (SCHEMA, "a run")
    (profile,) = document["profiles"]
    assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
    assert seconds_in(document, "longer") > 2 * seconds_in(document, "shorter") > 0
    assert seconds_in(document, "busy") == pytest.approx(
        seconds_in(document, "longer") + seconds_in(document, "shorter")
    )
    outermost = {document["shared"]["frames"][sample[0]]["name"] for sample in profile["samples"]}
    assert not outermost & {"busy", "longer"}
    frames = {frame["name"]: frame for frame in document["shared"]["frames"]}
    assert frames["busy"]["file"] == __file__
    assert frames["busy"]["line"] == busy.__code__.co_firstlineno


def test_it_is_written_when_the_run_fails(tmp_path: Path) -> None:
    def fail() -> None:
        busy(0.05)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"), flame_graph(tmp_path / "profile.json", "a run"):
        fail()
    assert json.loads((tmp_path / "profile.json").read_text())["profiles"]
