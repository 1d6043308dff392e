"""Flags of the suite, what a marker needs to run, and how many examples a property test takes.

The usual run takes the same 40 examples every time, so that a change is judged by what it changed;
`pytest tests/fuzz --hypothesis-profile=long` takes 2,000 new ones for each family, which are the files of tests/fuzz.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch  # noqa: F401  # sets up the logger below
from hypothesis import HealthCheck, settings

from tests import process_server
from tests.sampling import left_out

if "PYTEST_XDIST_WORKER" in os.environ:  # tests run side by side: none of them needs all cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

process_server.install()
os.fsync = lambda fd: None  # no file of a test has to outlive a machine that is lost, and each wait is 6 ms
gc.set_threshold(50_000, 20, 50)  # modules of models are many objects, and stay: few collections find anything
logging.getLogger("torch.__trace").propagate = True  # else pytest listens to it, and PyTorch describes stacks for it

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much, HealthCheck.large_base_example]

LONG = 2000
"""Examples of a family in a long run: each of its tests has an equal share of them."""

FAMILIES = frozenset({"test_indexing", "test_pointwise", "test_reductions", "test_shapes"})

settings.register_profile("usual", max_examples=40, deadline=None, derandomize=True, suppress_health_check=QUIET)
settings.register_profile("long", max_examples=LONG, deadline=None, suppress_health_check=QUIET)
settings.load_profile("usual")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")
    parser.addoption(
        "--provider", action="append", help="where tests/gpu runs; by default on those of a GPU; repeatable"
    )
    parser.addoption("--slow", action="store_true", help="run the whole of the suites of which CI runs a sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _share_examples([item for item in items if isinstance(item, pytest.Function) and item.path.stem in FAMILIES])
    if not config.getoption("--slow"):
        _leave_out(config, items)
    for item in items:
        if item.get_closest_marker("gpu") and not _cuda_works():
            item.add_marker(pytest.mark.skip(reason="ONNX Runtime's CUDA provider does not come up on this machine"))
    gc.freeze()  # libraries and tests stay: no collection has to look through their 800,000 objects


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each worker of `-n` files of its own, whose fixtures are made once, and at the end what another has left."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the rows of long runs, but those that the command line names: a skip of each would take 20 s."""
    named = {*config.args}
    long = [item for item in items if item.get_closest_marker("slow") or item.nodeid in left_out()]
    aside = {item for item in long if item.nodeid not in named}
    if aside:
        config.hook.pytest_deselected(items=[*aside])
        items[:] = [item for item in items if item not in aside]


def _share_examples(items: list[pytest.Function]) -> None:
    """In a long run. Of a family of which only a part is run, the tests have the shares that they have of the whole."""
    if settings().max_examples != LONG:
        return
    counts = {path: path.read_text(encoding="utf-8").count("@given(") for path in {item.path for item in items}}
    for item in items:
        settings(max_examples=math.ceil(LONG / counts[item.path]))(item.obj)


@cache
def _cuda_works() -> bool:
    from fxport.diagnostics import Log
    from fxport.ort_runner import providers

    return providers.resolve("auto", Log()).name == "cuda"


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compares a text with tests/golden/<name>; with --update-golden it writes the file instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"tests/golden/{name} is missing: run pytest --update-golden and read it"
        assert text == path.read_text(encoding="utf-8"), f"differs from tests/golden/{name}"

    return compare


@pytest.fixture
def real_processes() -> Iterator[None]:
    """Have each process of the test started by itself: by no server, see tests/process_server.py."""
    with process_server.switched_off():
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have Ctrl-C end the processes of the test: a suite in the background ignores it, and so would they."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
