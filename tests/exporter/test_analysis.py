"""The static analysis of functions: names against Python's own symbol tables, liveness by hand, sources that differ."""

from __future__ import annotations

import ast
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from fxport.exporter.capture.analysis.liveness import Live, liveness
from fxport.exporter.capture.analysis.names import arguments, bound, declared
from fxport.exporter.capture.analysis.source import FunctionSource, Unknown

MODULES = ("argparse", "inspect", "dataclasses", "ast", "asyncio.base_events", "typing", "unittest.mock", "tokenize")


def tables_of(table: symtable.SymbolTable) -> Iterator[symtable.Function]:
    for child in table.get_children():
        if isinstance(child, symtable.Function):
            yield child
        yield from tables_of(child)


def inlined(function: ast.FunctionDef) -> set[str]:
    """From Python 3.12 on the names that comprehensions bind for themselves stand in the function's table, too."""
    if sys.version_info < (3, 12):
        return set()
    targets = (each.target for each in ast.walk(function) if isinstance(each, ast.comprehension))
    return {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", MODULES)
def test_bound_names_are_those_of_the_symbol_table(name: str) -> None:
    """Of every function in a module of Python's library, by the line and the name of its definition."""
    __import__(name)
    text = inspect.getsource(sys.modules[name])
    tables = {(each.get_lineno(), each.get_name()): each for each in tables_of(symtable.symtable(text, name, "exec"))}
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in functions:
        line = min(node.lineno for node in [function, *function.decorator_list])
        symbols = (tables.get((function.lineno, function.name)) or tables[line, function.name]).get_symbols()
        outer = {each.get_name() for each in symbols if each.is_assigned() and not each.is_local()}
        wanted = {each.get_name() for each in symbols if each.is_local()} | outer
        found = bound(function.body) | {*arguments(function)}
        assert wanted - inlined(function) <= found <= wanted, function.name
        assert declared(function, ast.Global) <= {each.get_name() for each in symbols if each.is_global()}


LIVE: dict[str, tuple[str, set[str], set[str]]] = {
    "read behind a branch": ("if a:\n    y = 1\n    z = 2\nreturn y", {"y"}, {"y"}),
    "bound again before it is read": ("if a:\n    y = 1\ny = 2\nreturn y", set(), set()),
    "read by the next turn": ("for t in a:\n    y = y + t\nreturn 0", {"y"}, set()),
    "bound by each turn": ("for t in a:\n    z = t\n    y = z\nreturn y", set(), {"y"}),
    "bound by some turns": ("for t in a:\n    if t:\n        y = t\nreturn y", {"y"}, {"y"}),
    "read by the test": ("while y > 0:\n    y = f(z)\n    z = y\nreturn 1", {"y", "z"}, set()),
    "walrus first": ("for t in a:\n    z = (y := t) * y\nreturn z", set(), {"z"}),
    "walrus that may not come by": ("for t in a:\n    t and (y := t)\nreturn y", {"y"}, {"y"}),
    "walrus of itself": ("for t in a:\n    z = (y := y + t)\nreturn z", {"y"}, {"z"}),
    "read by a handler": ("try:\n    if a:\n        y = 1\n    g()\nexcept E:\n    return y", {"y"}, {"y"}),
    "bound where an error ends it": (
        "y = 0\ntry:\n    if a:\n        z = 1\n    y = g()\nexcept E:\n    pass\nreturn y",
        {"y"},
        {"y"},
    ),
    "read at last": ("try:\n    if a:\n        y = 1\n    return 2\nfinally:\n    g(y)", {"y"}, {"y"}),
    "read by a function": ("def h():\n    return y\nif a:\n    y = 1\nreturn h", {"y"}, {"y"}),
    "of a function around": ("nonlocal y\nif a:\n    y = 1\nreturn 2", {"y"}, {"y"}),
    "left by break": (
        "for t in a:\n    y = t\n    if y:\n        break\n    y = 3\nelse:\n    y = 4\nreturn y",
        set(),
        {"y"},
    ),
    "a pattern may fail": ("if a:\n    y = 1\nmatch a:\n    case [y]:\n        pass\nreturn y", {"y"}, {"y"}),
    "with may suppress": ("if a:\n    y = 1\nwith s():\n    y = g()\nreturn y", {"y"}, {"y"}),
    "unbound": ("if a:\n    y = 1\ndel y\nreturn 1", {"y"}, {"y"}),
}
"""Of the first compound statement, without `if` of handlers: y and z live where its body begins, and behind it."""


@pytest.mark.parametrize("name", LIVE)
def test_live_names(name: str) -> None:
    text, inside, after = LIVE[name]
    indented = "\n".join(f"        {line}" for line in text.splitlines())
    tree = ast.parse(f"def outer():\n    y = z = 0\n    def f(a):\n{indented}\n")
    function: Any = tree.body[0].body[1]  # type: ignore[attr-defined]  # as just written
    found = liveness(function)
    first = min(found, key=lambda node: node.lineno)
    assert isinstance(found[first], Live)
    assert found[first].inside & {"y", "z"} >= inside - bound(function.body[:0])
    assert found[first].after & {"y", "z"} == after


def loaded(path: Path) -> ModuleType:
    module = ModuleType("written")
    exec(compile(path.read_text("utf-8"), str(path), "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("def f(x):\n    return x + 1\n", "def f(x):\n    return x + 2\n", "its source is not what was imported"),
        ("def f(x):\n    return x + 1\n", "\n\n\ndef f(x):\n    return x + 1\n", "its source cannot be read"),
        ("f = lambda x: x + 1\n", None, "it is a lambda"),
        ("async def f(x):\n    await x\n", None, "it is a lambda, a comprehension or a coroutine"),
        ("def f(x):\n    return locals()\n", None, "it calls locals()"),
    ],
)
def test_what_is_not_analysed_says_why(tmp_path: Path, before: str, after: str | None, reason: str) -> None:
    path = tmp_path / "written.py"
    path.write_text(before, "utf-8")
    code = loaded(path).f.__code__
    if after is not None:
        path.write_text(after, "utf-8")
    linecache.checkcache()
    with pytest.raises(Unknown) as caught:
        FunctionSource.of(code)
    assert str(caught.value).startswith(reason)


def test_a_class_within_a_function_is_no_change_of_its_source(tmp_path: Path) -> None:
    """Its body begins with a name that has those of all around it."""
    path = tmp_path / "written.py"
    path.write_text("class Outer:\n def f(self):\n  class Inner:\n   class Deep:\n    x = 1\n  return Inner\n", "utf-8")
    FunctionSource.of(loaded(path).Outer.f.__code__)


@pytest.mark.parametrize("place", ["if True:\n    ", "try:\n    "])
def test_an_import_in_a_statement_is_no_change_of_the_source(tmp_path: Path, place: str) -> None:
    """Python calls attributes of what a file imports by other instructions than methods."""
    path = tmp_path / "written.py"
    last = "finally:\n    pass\n" if place.startswith("try") else ""
    path.write_text(f"{place}import math\n{last}def f(x):\n    return math.floor(x)\n", "utf-8")
    FunctionSource.of(loaded(path).f.__code__)


def test_unmodified_functions_compile_to_themselves() -> None:
    """Methods with private names, free variables, imported names and decorators among them."""
    module = sys.modules["argparse"]
    functions = [each for each in vars(module).values() if inspect.isfunction(each)]
    methods = [each for kind in vars(module).values() if isinstance(kind, type) for each in vars(kind).values()]
    codes: list[CodeType] = [each.__code__ for each in (*functions, *filter(inspect.isfunction, methods))]
    analysed = 0
    for code in codes:
        try:
            FunctionSource.of(code)
        except Unknown as unknown:
            assert str(unknown).startswith(("it is", "it calls", "its source cannot")), (code, unknown)  # noqa: PT017
        else:
            analysed += 1
    assert analysed > 100
