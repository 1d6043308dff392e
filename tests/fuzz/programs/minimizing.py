"""The smallest part of a program that still fails in the same way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.fuzz.programs.grammar import Program
from tests.fuzz.programs.running import Verdict, judge


def minimized(program: Program, verdict: Verdict, folder: Path) -> tuple[Program, Verdict]:
    """The program without statements that its failure does not need, and what becomes of that."""
    while True:
        for source in _smaller(program.source):
            candidate = replace(program, source=source)
            found = judge(candidate, folder)
            if found.kind == verdict.kind:
                program, verdict = candidate, found
                break
        else:
            return program, verdict


def _smaller(source: str) -> Iterator[str]:
    """The source without one statement, or with the body of a compound one in its place; large parts first."""
    tree = ast.parse(source)
    places = [
        (node, name, index)
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(statements := getattr(node, name, None), list)
        for index in range(len(statements))
    ]
    for node, name, index in places:
        statements = getattr(node, name)
        kept = statements[index]
        for instead in _instead(kept, alone=len(statements) == 1 and name == "body"):
            setattr(node, name, [*statements[:index], *instead, *statements[index + 1 :]])
            yield ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            setattr(node, name, statements)


def _instead(statement: ast.stmt, *, alone: bool) -> Iterator[list[ast.stmt]]:
    if not isinstance(statement, ast.Pass):
        yield [ast.Pass()] if alone else []
    if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try):
        yield statement.body
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.IfExp):
        for value in (statement.value.body, statement.value.orelse):
            yield [ast.Assign(statement.targets, value)]
    if isinstance(statement, ast.Assign | ast.Return) and isinstance(statement.value, ast.BinOp):
        for value in (statement.value.left, statement.value.right):
            yield [ast.Return(value) if isinstance(statement, ast.Return) else ast.Assign(statement.targets, value)]
