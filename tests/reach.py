"""Note which blocks of the package's code each test runs, and choose by them the rows of the usual run.

    python -m pytest --slow -p tests.reach FILES    appends a line for each test that passes to build/reach.jsonl
    python -m tests.reach                           writes left_out.txt by it

Each block (body of a function, branch, loop or handler, and the branch that is not written) gets a first statement that
notes it, when its module is imported: a fifth more time. What runs in other processes is not seen, so FILES are suites
whose rows run in their own.
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

from tests.sampling import Reach, chosen, write_left_out

ROOT = Path(__file__).resolve().parents[1]
OURS = ("diagnostics", "exporter", "fx_passes", "ort_runner")
OUT = ROOT / "build" / "reach.jsonl"
NOTE = "__note_block__"
TIMES = 1
"""Rows that have to reach a block before further ones may be left out."""

KEPT = frozenset(
    {
        "tests/exporter/test_failures.py::test_failure[a forward bound later]",
        "tests/exporter/test_failures.py::test_failure[in a decorator]",
        "tests/exporter/test_failures.py::test_failure[in a lambda]",
        "tests/exporter/test_soundness.py::test_right_or_refused[functions and errors: functions that forward makes]",
        "tests/exporter/test_soundness.py::test_right_or_refused[functions without a source of their own: decorated]",
        "tests/exporter/test_soundness.py::test_right_or_refused[jumps and bindings: continue in turns of data]",
        "tests/exporter/test_soundness.py::test_right_or_refused[jumps out of with and finally: continue and break]",
        "tests/exporter/test_soundness.py::test_right_or_refused[loop variable after the loop: continue on data]",
    }
)
"""Rows that reach two planted faults of exporter/capture, which the rows chosen by blocks had not found."""

blocks: list[str] = []
"""Where each block starts, as path:line, by its number."""
reached: set[int] = set()
passed: list[str] = []


class _Noted(ast.NodeTransformer):
    """Adds to each block a statement that notes it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def note(self, at: ast.AST, kind: str = "") -> ast.stmt:
        line = getattr(at, "lineno", 0)
        blocks.append(f"{self.path}:{line}{kind}")
        call = ast.Expr(ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(len(blocks) - 1)], []))
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If | ast.For | ast.While | ast.ExceptHandler):
            first = node.body[0]
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            node.body.insert(1 if is_text and is_function else 0, self.note(first))
        if isinstance(node, ast.If):
            node.orelse.insert(0, self.note(node.orelse[0] if node.orelse else node, " else"))
        return node


def _code(path: str, source: bytes) -> CodeType:
    tree = _Noted(os.path.relpath(path, ROOT)).visit(ast.parse(source, path))
    return compile(tree, path, "exec", dont_inherit=True)


def _install() -> None:
    folders = tuple(f"{ROOT / each}{os.sep}" for each in OURS)
    plain = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> Any:
        path = os.path.realpath(self.get_filename(name))
        return _code(path, self.get_data(path)) if path.startswith(folders) else plain(self, name)

    setattr(builtins, NOTE, reached.add)
    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    reached.clear()
    passed.clear()
    begun = _cpu()
    result = yield
    if passed:
        names = sorted(blocks[number] for number in reached)
        line = json.dumps({"test": item.nodeid, "seconds": round(_cpu() - begun, 2), "blocks": names})
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
    """Choose of all rows that were measured."""
    measured = map(json.loads, OUT.read_text(encoding="utf-8").splitlines())
    found = {each["test"]: (each["seconds"], each["blocks"]) for each in measured if "[" in each["test"]}
    rows = {name: Reach(cpu, frozenset({*_told_apart(names), *_kinds(name)})) for name, (cpu, names) in found.items()}
    taken = {*chosen(rows, times=TIMES)} | (KEPT & rows.keys())
    write_left_out(rows.keys() - taken)
    seconds = [sum(rows[name].seconds for name in names) for names in (rows, taken)]
    print(f"{len(taken)} of {len(rows)} rows, {seconds[1]:.0f} of {seconds[0]:.0f} s")


if __name__ == "__main__":
    main()
else:
    _install()
