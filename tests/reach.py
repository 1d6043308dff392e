"""Note which parts of the package's code each row of a test runs, and choose by them the rows of the usual run.

    python -m pytest --slow -p tests.reach FILES    appends a line for each row that passes to build/reach.jsonl
    python -m tests.reach                           writes left_out.txt by it

Each block (body of a function, branch, loop or handler, and the branch that is not written) gets a first statement that
notes it, when its module is imported, and so do the arms of `x if c else y`, what follows `and` and `or`, and what a
comprehension takes and leaves: a fourth more time. The lines of a file are of one state of the code.

Always run are tests without rows, rows that take little time, rows that start other processes, in which nothing is
seen, and those that fail with notes (Dynamo cannot trace them). Not for FILES whose rows differ in what is no code of
the package: operators, distributions, passes. Rows of the table that were not measured stay in it.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import resource
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tests.notes import NOTE, Noted, blocks
from tests.sampling import Reach, chosen, left_out, write_left_out

ROOT = Path(__file__).resolve().parents[1]
OURS = ("diagnostics", "exporter", "fx_passes", "ort_runner")
OUT = ROOT / "build" / "reach.jsonl"
QUICK = 0.2
"""Seconds of CPU, with notes: a row that takes less is always run."""
ELSEWHERE = 0.1
"""Seconds of CPU in other processes from which on a row is always run."""

KEPT = frozenset(
    {
        "tests/exporter/test_failures.py::test_failure[a forward bound later]",
        "tests/exporter/test_failures.py::test_failure[in a decorator]",
        "tests/exporter/test_failures.py::test_failure[in a lambda]",
        "tests/exporter/test_soundness.py::test_right_or_refused[functions and errors: functions that forward makes]",
        "tests/exporter/test_soundness.py::test_right_or_refused[functions of math: of floats, NaN and infinity]",
        "tests/exporter/test_soundness.py::test_right_or_refused[functions that go through values: max and min of NaN]",
        "tests/exporter/test_soundness.py::test_right_or_refused[functions without a source of their own: decorated]",
        "tests/exporter/test_soundness.py::test_right_or_refused[items that may be NaN: asked by math]",
        "tests/exporter/test_soundness.py::test_right_or_refused[jumps and bindings: continue in turns of data]",
        "tests/exporter/test_soundness.py::test_right_or_refused[jumps out of with and finally: continue and break]",
        "tests/exporter/test_soundness.py::test_right_or_refused[lists of numbers from data: extremes of NaN]",
        "tests/exporter/test_soundness.py::test_right_or_refused[loop variable after the loop: continue on data]",
    }
)
"""Rows that reach two planted faults of exporter/capture, which the rows chosen by blocks had not found; and those of
NaN, which blocks do not tell from other values."""

reached: set[int] = set()
passed: list[str] = []


def _code(path: str, source: bytes) -> CodeType:
    tree = Noted(os.path.relpath(path, ROOT)).visit(ast.parse(source, path))
    return compile(tree, path, "exec", dont_inherit=True)


def _install() -> None:
    folders = tuple(f"{ROOT / each}{os.sep}" for each in OURS)
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> Any:
        path = os.path.realpath(self.get_filename(name))
        return _code(path, self.get_data(path)) if path.startswith(folders) else plain(self, name)

    setattr(builtins, NOTE, reached.add)
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests without rows aside: they are always run."""
    items[:] = [item for item in items if "[" in item.nodeid]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    reached.clear()
    passed.clear()
    begun, elsewhere = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
    result = yield
    if passed:
        names = sorted(blocks[number] for number in reached)
        own, others = _cpu(resource.RUSAGE_SELF) - begun, _cpu(resource.RUSAGE_CHILDREN) - elsewhere
        line = json.dumps({"test": item.nodeid, "seconds": round(own, 2), "others": round(others, 2), "blocks": names})
        OUT.parent.mkdir(exist_ok=True)
        with OUT.open("a", encoding="utf-8") as out:
            out.write(f"{line}\n")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and (report.passed or hasattr(report, "wasxfail")):
        passed.append(report.nodeid)


def _kinds(name: str) -> Iterator[str]:
    """The test function of a row, and the kind that the name of the row begins with."""
    function, row = name.removesuffix("]").split("[", 1)
    yield function
    if ": " in row:
        yield f"{function}[{row.split(': ')[0]}"


def _told_apart(names: list[str]) -> Iterator[str]:
    """Blocks that were run on the way to a refusal are others than those on the way to a model."""
    from fxport.exporter.capture.failures import report_failure

    code = report_failure.__code__
    is_refused = f"{os.path.relpath(code.co_filename, ROOT)}:{code.co_firstlineno + 1}" in names
    yield from (f"{name}, refused" if is_refused else name for name in names)


def main() -> None:
    """Choose of all rows that were measured, and keep what the table says of others."""
    measured = map(json.loads, OUT.read_text(encoding="utf-8").splitlines())
    found = {each["test"]: (each["seconds"], each["blocks"]) for each in measured if each["others"] < ELSEWHERE}
    rows = {name: Reach(cpu, frozenset({*_told_apart(names), *_kinds(name)})) for name, (cpu, names) in found.items()}
    taken = {*chosen(rows, quick=QUICK)} | (KEPT & rows.keys())
    write_left_out({*(rows.keys() - taken), *(left_out() - rows.keys())})
    seconds = [sum(rows[name].seconds for name in names) for names in (rows, taken)]
    print(f"{len(taken)} of {len(rows)} rows, {seconds[1]:.0f} of {seconds[0]:.0f} s")


if __name__ == "__main__":
    main()
else:
    _install()
