"""FXP2001 to FXP2003: the request for a dimension, written as the model allows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from diagnostics.fixes.site import Site, fix
from diagnostics.model import Applicability, Edit, Fix

BOUNDS = {
    "min": re.compile(r"(?:at least |^)(\d+)"),
    "max": re.compile(r"(?:at most |^\d+ to )(\d+)"),
    "factor": re.compile(r"a multiple of (\d+)"),
}
"""Where the sizes that are left stand in their words: "2 to 12", "at least 4 and a multiple of 2"."""

Rewrite = Callable[[ast.expr], str]


def fixed_dimension(site: Site) -> Iterator[Fix]:
    """A dimension that the model fixes is not asked for."""
    dim = site.facts.get("dim", "")
    edits = _edits(site, dim, lambda node: "None")
    made = fix(f"Do not ask for '{dim}' to be dynamic: the model is right for this one size.", *edits)
    yield replace(made, applicability=Applicability.DECISION)


def bounded_dimension(site: Site) -> Iterator[Fix]:
    """The bounds that the model sets, in the request."""
    dim, said = site.facts.get("dim", ""), site.facts.get("range", "")
    least, most, factor = (int(found[1]) if (found := each.search(said)) else None for each in BOUNDS.values())
    if least is None and most is None and factor is None:
        return
    if factor is not None:  # the bounds are those of the number of times
        least, most = least and -(-least // factor), most and most // factor
    listed = [f"{name}={bound}" for name, bound in (("min", least), ("max", most)) if bound is not None]
    if dim.isidentifier():
        times = "" if factor is None else f"{factor} * "
        quoted = f'"{dim}"'
        edits = _edits(site, dim, lambda node: f"{times}{_dim(site, node)}({_joined(quoted, *listed)})")
        yield fix(f"Ask for `{times}Dim({_joined(repr(dim), *listed)})`.", *edits)
    elif factor is None:  # it has the name of its place, which no Dim can have
        yield fix(f"Ask for `Dim.AUTO({_joined(*listed)})`.")


def tied_dimensions(site: Site) -> Iterator[Fix]:
    """Two dimensions that must be equal, under one name."""
    dim, other = site.facts.get("dim", ""), site.facts.get("other", "")
    if site.facts.get("relation") != f"{dim} == {other}":
        return

    def named(node: ast.expr) -> str:
        return f'"{other}"' if isinstance(node, ast.Constant) else f'{_dim(site, node)}("{other}")'

    yield fix(f"Give '{dim}' and '{other}' one name.", *_edits(site, dim, named))


def _joined(*arguments: str) -> str:
    return ", ".join(arguments)


def _edits(site: Site, dim: str, rewrite: Rewrite) -> list[Edit]:
    return [site.replaced(node, rewrite(node)) for node in _requests(site, dim)]


def _requests(site: Site, dim: str) -> Iterator[ast.expr]:
    """Where a file asks for a dimension of this name: `Dim("rows")`, or `"rows"` as a value of `{0: "rows"}`."""
    for node in ast.walk(site.tree):
        if isinstance(node, ast.Call) and _is_dim(node) and _is_name(node.args[0], dim):
            yield node
        elif isinstance(node, ast.Dict) and all(_is_axis(key) for key in node.keys):
            yield from (value for value in node.values if _is_name(value, dim))


def _is_dim(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name == "Dim" and bool(node.args)


def _dim(site: Site, node: ast.expr) -> str:
    """How the file calls Dim, or its full name."""
    return site.code(node.func) if isinstance(node, ast.Call) else "torch.export.Dim"


def _is_name(node: ast.expr, dim: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == dim


def _is_axis(key: ast.expr | None) -> bool:
    if isinstance(key, ast.UnaryOp):
        key = key.operand
    return isinstance(key, ast.Constant) and isinstance(key.value, int)
