"""One function of a model, rewritten at some of its lines: normal forms, one analysis, then templates over it."""

from __future__ import annotations

import ast
from types import CodeType

from fxport.exporter.capture.analysis.liveness import liveness
from fxport.exporter.capture.analysis.names import arguments
from fxport.exporter.capture.analysis.source import FunctionSource, Unknown
from fxport.exporter.capture.control_flow.calls import calls_kept, comprehensions_as_loops, lists_symbolic
from fxport.exporter.capture.control_flow.conditions import choices_kept
from fxport.exporter.capture.control_flow.found_places import places_as_turns
from fxport.exporter.capture.control_flow.generators import generator_pushed
from fxport.exporter.capture.control_flow.identities import identities_told
from fxport.exporter.capture.control_flow.jumps import jumps_removed, split_at
from fxport.exporter.capture.control_flow.plain_forms import made_plain
from fxport.exporter.capture.control_flow.statements import Statements, given_to, wanted_statements, with_shared_names
from fxport.exporter.capture.control_flow.syntax import placed


def rewritten(
    code: CodeType, lines: set[int], splits: set[int], calls: bool, reasons: dict[int, str]
) -> CodeType | None:
    """Return the code of a function with its loops and branches at these lines rewritten; None where none can be.

    Args:
        code: The function's code as the user wrote it.
        lines: The lines at which PyTorch asked for a number of a dynamic size, or for a value of the data. Without any,
            only questions of identity are rewritten.
        splits: The lines of branches in whose arms all that follows them runs.
        calls: Also replace calls at these lines of functions such as `int` by those of `kept_calls`.
        reasons: Gets the lines at which something could not be rewritten, each with the reason.
    """
    try:
        source = FunctionSource.of(code)
    except Unknown as unknown:
        reasons.update(dict.fromkeys(lines, str(unknown)))
        return None
    if generator_pushed(source.tree):
        _Super(source.tree).visit(source.tree)
    functions = (node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef))
    inner = [node for node in functions if not hasattr(node, "plain")]
    changed = [_rewrite(each, lines, splits, calls, reasons) for each in reversed(inner)]
    return source.compiled(source.tree) if any(changed) else None


def _rewrite(
    function: ast.FunctionDef, lines: set[int], splits: set[int], calls: bool, reasons: dict[int, str]
) -> bool:
    """Rewrite what stands at these lines of the function itself, not of functions in it; return whether it did."""
    made_plain(function, lines, splits)
    identities = identities_told(function)
    comprehensions_as_loops(function, lines)
    places = places_as_turns(function, lines)
    jumps_removed(function, lines)
    function.body = split_at(function.body, lines, splits)
    live, given = liveness(function), given_to(function)
    wanted = wanted_statements(function, lines)
    choices = choices_kept(function, lines)
    statements = Statements(function, wanted, live, reasons)
    kept = statements.rewrite()
    kept_calls = calls and calls_kept(function, lines)
    if not (identities or places or choices or kept or kept_calls):
        return False
    if lines:
        lists_symbolic(function)
    _Super(function).visit(function)
    with_shared_names(function, statements.shared, given if statements.returns else None)
    return True


class _Super(ast.NodeTransformer):
    """Writes `super()` with its two arguments, which Python looks up in the frame of the method alone."""

    def __init__(self, method: ast.FunctionDef) -> None:
        self.method = method

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(node) if node is self.method or hasattr(node, "part") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        names = arguments(self.method)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and names:
            own: list[ast.expr] = [ast.Name("__class__", ast.Load()), ast.Name(names[0], ast.Load())]
            return placed(ast.Call(node.func, own, []), node)
        return node
