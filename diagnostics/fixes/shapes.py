"""FXP2001 to FXP2003: the request for a dimension, written as the model allows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fxport.diagnostics.fixes.requests import requests_of
from fxport.diagnostics.fixes.site import Site, fix
from fxport.diagnostics.model import Applicability, Edit, Finding, Fix

BOUNDS = {
    "min": re.compile(r"(?:at least |^)(\d+)"),
    "max": re.compile(r"(?:at most |^\d+ to )(\d+)"),
    "factor": re.compile(r"a multiple of (\d+)"),
}
"""Patterns of the bounds in the text of the remaining sizes: "2 to 12", "at least 4 and a multiple of 2"."""

Rewrite = Callable[[ast.expr], str]


def fixed_dimension(site: Site) -> Iterator[Fix]:
    """Yield fixes for each cause of a fixed dimension, then the fix that no longer asks for it to be dynamic."""
    yield from fixed_by_numbers(site)
    yield from fixed_by_other(site)
    yield from fixed_by_module(site)
    yield from fixed_by_question(site)
    dim = site.facts.get("dim", "")
    edits = _edits(site, dim, lambda node: "None")
    made = fix(f"Do not ask for '{dim}' to be dynamic: the model is right for this one size.", *edits)
    yield replace(made, applicability=Applicability.DECISION)


SIZED = frozenset(
    ("reshape", "view", "expand", "unflatten", "broadcast_to", "zeros", "ones", "full", "empty", "repeat")
)
"""Functions that take sizes as numbers."""


def fixed_by_numbers(site: Site) -> Iterator[Fix]:
    """`x.reshape(2 * 7, 16)` says the size as a number."""
    node = site.expression
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    if not isinstance(node, ast.Call) or name not in SIZED:
        return
    listed = [each for arg in node.args for each in (arg.elts if isinstance(arg, (ast.Tuple, ast.List)) else [arg])]
    numbers = [site.code(each) for each in listed if _is_number(each)]
    if numbers:
        said = ", ".join(f"`{each}`" for each in numbers)
        like = (
            "-1 or `.shape[…]` of an input" if name in ("reshape", "view", "unflatten") else "`.shape[…]` of an input"
        )
        yield fix(f"'{name}' has sizes as numbers here ({said}): write {like} for the size that varies.")


def fixed_by_other(site: Site) -> Iterator[Fix]:
    """`x + past`, where the other operand's size is the one of the example."""
    node, wanted = site.expression, site.facts.get("input", "")
    if not isinstance(node, ast.BinOp) or site.function is None:
        return
    sides = [(site.code(each), inputs_in(site, each)) for each in (node.left, node.right)]
    others = [(code, names) for code, names in sides if wanted.partition(".")[0] not in names]
    if len(others) != 1:
        return
    code, names = others[0]
    if names:
        given = " or ".join(f"'{name}'" for name in sorted(names))
        name, dim = min(names), site.facts.get("dim", "DIM")
        same = f'`--dynamic {name}:INDEX={dim}`, in Python `dynamic_shapes={{…, "{name}": {{INDEX: "{dim}"}}}}`'
        what = f"input {given}" if code in names else f"'{code}', which comes from {given}"
        yield fix(f"The size is that of {what}: make its dim dynamic, too, {same}.")
    else:
        yield fix(f"The size is that of '{code}', which no input gives: make it of the size of '{wanted}'.")


def fixed_by_question(site: Site) -> Iterator[Fix]:
    """`if x.shape[0] != 4:` lets one size through."""
    node = site.expression
    if isinstance(node, ast.Compare) and (".shape" in site.code(node) or ".size(" in site.code(node)):
        yield fix(f"`{site.code(node)}` has one answer for the size of the example: leave the question out of forward.")


def fixed_by_module(site: Site) -> Iterator[Fix]:
    """`self.linear(x)`: a module of a library, whose own code is not the user's, has that size in its weights."""
    node = site.expression
    if not (isinstance(node, ast.Call) and _is_of_self(node.func)):
        return
    given = [*node.args, *(each.value for each in node.keywords)] if site.function is not None else []
    others = set[str]().union(*(inputs_in(site, each) for each in given)) - {
        site.facts.get("input", "").partition(".")[0]
    }
    if others:
        listed, dim = ", ".join(f"'{name}'" for name in sorted(others)), site.facts.get("dim", "DIM")
        same = f"`--dynamic {min(others)}:INDEX={dim}`"
        yield fix(
            f"'{site.code(node.func)}' takes {listed}, too: if the size is the same there, make it dynamic, {same}."
        )
    else:
        said = f"'{site.code(node.func)}' takes one size there, that of its weights or settings"
        yield fix(f"{said}: leave '{site.facts.get('dim', '')}' static, or ask for another dimension.")


def _is_of_self(node: ast.expr) -> bool:
    """Return True for `self.layer` and for `self.layers[0].linear`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id == "self"


def inputs_in(site: Site, node: ast.expr) -> set[str]:
    """The arguments of the function that an expression is computed from, through assignments above it."""
    assert site.function is not None
    arguments = site.function.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} - {"self"}
    made: dict[str, list[ast.expr]] = {}
    for each in ast.walk(site.function):
        if isinstance(each, ast.Assign) and each.lineno < node.lineno:
            for target in each.targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        made.setdefault(name.id, []).append(each.value)
    found, seen, waiting = set[str](), set[str](), [node]
    while waiting:
        for name in ast.walk(waiting.pop()):
            if isinstance(name, ast.Name) and name.id not in seen:
                seen.add(name.id)
                found |= {name.id} & names
                waiting += made.get(name.id, [])
    return found


def _is_number(node: ast.expr) -> bool:
    """A size that is written out: 14, 2 * 7; not -1."""
    inner = list(ast.walk(node))
    plain = all(isinstance(each, (ast.Constant, ast.BinOp, ast.operator)) for each in inner)
    return plain and any(isinstance(each, ast.Constant) and isinstance(each.value, int) for each in inner)


def bounded_dimension(site: Site) -> Iterator[Fix]:
    """The bounds that the model sets, in the request."""
    dim, (times, listed, *_) = site.facts.get("dim", ""), _bounds(site.facts)
    quoted = f'"{dim}"'
    edits = _edits(site, dim, lambda node: f"{times}{_dim(site, node)}({_joined(quoted, *listed)})")
    for made in bounds_in_words(site.finding):
        yield replace(made, edits=tuple(edits) if dim.isidentifier() else ())


def bounds_in_words(finding: Finding) -> Iterator[Fix]:
    """The bounds that the model sets, as Python and the command line take them."""
    facts = {name: str(value) for name, value in finding.facts.items()}
    dim = facts.get("dim", "")
    times, listed, least, most = _bounds(facts)
    if not listed and not times:
        return
    if dim.isidentifier():
        asked = f"Ask for `{times}Dim({_joined(repr(dim), *listed)})`"
        if facts.get("axis") != str(None):  # that of a number, which the command line takes as it is
            asked += f", on the command line `--dynamic {_typed(facts, times, least, most)}`"
        yield fix(f"{asked}.")
    elif not times:  # it has the name of its place, which no Dim can have
        yield fix(f"Ask for `Dim.AUTO({_joined(*listed)})`.")


def _bounds(facts: Mapping[str, str]) -> tuple[str, list[str], int | None, int | None]:
    """The factor before a Dim, its arguments, and the bounds in them."""
    said = facts.get("range", "")
    least, most, factor = (int(found[1]) if (found := each.search(said)) else None for each in BOUNDS.values())
    if factor is not None:  # the bounds are those of the number of times
        least, most = least and -(-least // factor), most and most // factor
    listed = [f"{name}={bound}" for name, bound in (("min", least), ("max", most)) if bound is not None]
    return "" if factor is None else f"{factor} * ", listed, least, most


def _typed(facts: Mapping[str, str], times: str, least: int | None, most: int | None) -> str:
    """The request with its bounds as `--dynamic` takes it: `x:0=batch[1..64]`, `x:0=4*batch`."""
    low, high = ("" if bound is None else str(bound) for bound in (least, most))
    bounds = f"[{low}..{high}]" if low or high else ""
    place = f"{facts.get('input', 'NAME')}:{facts.get('axis', 'INDEX')}"
    return f"{place}={times.replace(' ', '')}{facts.get('dim', '')}{bounds}"


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
    return [site.replaced(node, rewrite(node)) for node in requests_of(site, dim)]


def _dim(site: Site, node: ast.expr) -> str:
    """Return the expression by which the file calls Dim, or its full name."""
    return site.code(node.func) if isinstance(node, ast.Call) else "torch.export.Dim"
