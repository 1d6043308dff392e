"""What a branch appends to a list, as values and truths that it gives: whether the list grows is seen behind it.

if sure(x):                              on = False
    found.append(x)                      if sure(x):
                                             item, on = x, True
                                         appended(found, on, item)
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from exporter.capture.control_flow.loop_heads import STEPS
from exporter.capture.control_flow.loop_names import stored

APPENDED = f"{STEPS}.appended"


@dataclass
class Appends:
    """Those of one `if`. Its branches share the places of what they append to one list: only one of them does."""

    prefix: str
    lists: list[str] = field(default_factory=list)
    """The list of each place."""

    @property
    def names(self) -> list[str]:
        """What the branches bind in the place of appending."""
        return [self.name(kind, place) for place in range(len(self.lists)) for kind in ("item", "on")]

    def name(self, kind: str, place: int) -> str:
        return f"{self.prefix}_{kind}_{place}"

    def taken_out(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a branch with what they append to lists of outside as values."""
        own, seen = stored(body), Counter[str]()
        out: list[ast.stmt] = []
        for node in body:
            found = appended_by(node)
            if found is None or found[0] in own:
                out.append(node)
                continue
            held, on, value = found
            place = self.place(held, seen[held])
            seen[held] += 1
            pairs = ((self.name("item", place), value), (self.name("on", place), on))
            out += [ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], each), node) for name, each in pairs]
        return out

    def place(self, held: str, count: int) -> int:
        places = [i for i, each in enumerate(self.lists) if each == held]
        if count < len(places):
            return places[count]
        self.lists.append(held)
        return len(self.lists) - 1

    def before(self) -> str:
        return "\n".join(f"{self.name('on', place)} = False" for place in range(len(self.lists)))

    def after(self) -> str:
        places = enumerate(self.lists)
        return "\n".join(f"{APPENDED}({held}, {self.name('on', i)}, {self.name('item', i)})" for i, held in places)


def appended_by(node: ast.stmt) -> tuple[str, ast.expr, ast.expr] | None:
    """(list, whether, value) of `found.append(x)` and of what stands for one in a branch; None for other statements."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if ast.unparse(call.func) == APPENDED and isinstance(call.args[0], ast.Name):
        return call.args[0].id, call.args[1], call.args[2]
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "append" or len(call.args) != 1:
        return None
    if not isinstance(function.value, ast.Name):
        return None
    return function.value.id, ast.copy_location(ast.Constant(True), node), call.args[0]


def lists_appended(function: ast.FunctionDef) -> set[str]:
    """The names of lists that statements behind branches append to."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and ast.unparse(node.func) == APPENDED]
    return {node.args[0].id for node in calls if isinstance(node.args[0], ast.Name)}
