"""Flame graph of a run: samples of its stack, in the format of https://www.speedscope.app."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fxport.diagnostics.paths import written_whole

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
INTERVAL = 0.005
"""Seconds between two samples at first."""

MOST = 20_000
"""Number of samples after which the time between two of them doubles, and again after as many more."""

Frame = tuple[str, str, int]
"""Name, file and first line of a function."""


@contextmanager
def flame_graph(path: Path | None, name: str) -> Iterator[None]:
    """Sample what this thread runs meanwhile, and write it when that ends, also by an error; with None, do nothing."""
    if path is None:
        yield
        return
    sampler = _Sampler(threading.get_ident())
    sampler.start()
    try:
        yield
    finally:
        sampler.ended.set()
        sampler.join()
        with written_whole(path) as draft:
            draft.write_text(json.dumps(sampler.as_speedscope(name)), encoding="utf-8")


class _Sampler(threading.Thread):
    """Samples the stack of one thread; each sample stands for the seconds since the one before."""

    def __init__(self, watched: int) -> None:
        super().__init__(name="fxport flame graph", daemon=True)
        self.watched = watched
        self.ended = threading.Event()
        self.frames: dict[Frame, int] = {}
        self.stacks: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.samples: list[tuple[int, ...]] = []
        self.weights: list[float] = []

    def run(self) -> None:
        interval, before = INTERVAL, time.perf_counter()
        while not self.ended.wait(interval):
            stack = self._stack(sys._current_frames().get(self.watched))
            now = time.perf_counter()
            self.samples.append(self.stacks.setdefault(stack, stack))
            self.weights.append(now - before)
            before = now
            if len(self.samples) % MOST == 0:
                interval *= 2

    def _stack(self, frame: FrameType | None) -> tuple[int, ...]:
        """Return the numbers of the functions on a stack, outermost first."""
        found: list[int] = []
        while frame is not None:
            code = frame.f_code
            key = (code.co_qualname, code.co_filename, code.co_firstlineno)
            found.append(self.frames.setdefault(key, len(self.frames)))
            frame = frame.f_back
        return tuple(found[::-1])

    def as_speedscope(self, name: str) -> dict[str, object]:
        """Return the document, as its schema wants it."""
        frames = [{"name": function, "file": file, "line": line} for function, file, line in self.frames]
        profile = {
            "type": "sampled",
            "name": name,
            "unit": "seconds",
            "startValue": 0,
            "endValue": sum(self.weights),
            "samples": self.samples,
            "weights": self.weights,
        }
        return {
            "$schema": SCHEMA,
            "name": name,
            "exporter": "fxport",
            "shared": {"frames": frames},
            "profiles": [profile],
        }
