"""A function of a model with what stands at some of its lines rewritten: each kind in its turn."""

from __future__ import annotations

import ast
from types import CodeType

from exporter.capture.control_flow.appending import lists_appended
from exporter.capture.control_flow.branch_rewriting import branches_at, branches_kept, names_given
from exporter.capture.control_flow.call_rewriting import calls_kept, comprehensions_as_loops, lists_known
from exporter.capture.control_flow.conditions import choices_kept
from exporter.capture.control_flow.effects import MODULE
from exporter.capture.control_flow.found_places import places_as_turns
from exporter.capture.control_flow.jumps import jumps_removed, returns_last
from exporter.capture.control_flow.loop_names import has_private_names
from exporter.capture.control_flow.loop_rewriting import loops_kept
from exporter.capture.control_flow.plain_forms import made_plain


def rewritten(source: str, code: CodeType, lines: set[int], calls: bool = True) -> CodeType | None:
    """The code of the function with its loops and branches at these lines rewritten; None where none of them can be.

    With `calls`, calls at these lines of functions such as `int` are those of `kept_calls`.
    """
    try:
        tree = ast.parse(f"if True:\n{source}" if source[:1].isspace() else f"\n{source}")  # columns are to stay
    except SyntaxError:  # a lambda within something longer
        return None
    function = tree.body[0].body[0] if isinstance(tree.body[0], ast.If) else tree.body[0]
    if not isinstance(function, ast.FunctionDef) or has_private_names(function):
        return None
    if function.name != code.co_name:  # a branch that was made a function has the source of the one around it
        return None
    ast.increment_lineno(tree, code.co_firstlineno - 2)
    inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef)]
    function.decorator_list = []
    changed = [_kept(each, lines, calls) for each in reversed(inner)]
    return _code_of(function, code) if any(changed) else None


def _kept(function: ast.FunctionDef, lines: set[int], calls: bool) -> bool:
    """Rewrites what stands at these lines of the function itself, not of functions in it. Whether there was something.

    Branches come before the loops around them, which then hold what stands for them.
    """
    made_plain(function)
    comprehensions_as_loops(function, lines)
    places = places_as_turns(function, lines)
    jumps_removed(function, lines, MODULE)
    function.body = returns_last(function.body, lines)
    choices = choices_kept(function, lines)
    branches = branches_kept(function, branches_at(function, lines))
    loops = loops_kept(function, lines)
    if branches or choices or loops:
        names_given(function)
    if names := lists_appended(function):
        lists_known(function, names)
    return any([loops, places, branches, choices, calls and calls_kept(function, lines)])


def _code_of(function: ast.FunctionDef, code: CodeType) -> CodeType | None:
    """The compiled function, as one that has the same free variables as the original."""
    outer = ast.parse(f"def _outer({', '.join(code.co_freevars)}):\n    pass")
    known = [] if function.name in code.co_freevars else [ast.Global([function.name])]  # one that calls itself
    outer.body[0].body = [*known, function]  # type: ignore[attr-defined]  # a function was parsed
    ast.fix_missing_locations(outer)
    whole = compile(outer, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    inner = next(each for each in whole.co_consts if isinstance(each, CodeType))
    found = next(each for each in inner.co_consts if isinstance(each, CodeType) and each.co_name == code.co_name)
    return found.replace(co_qualname=code.co_qualname) if found.co_freevars == code.co_freevars else None


_FUTURE = 0x1FF0000
"""The bits of a code's flags that `from __future__ import ...` sets."""
