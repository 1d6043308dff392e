"""Fixes for state that a model changes or assumes while it runs: training mode, inputs, constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fxport.diagnostics.fixes.site import Site, fix
from fxport.diagnostics.model import Edit, Fix

INDEPENDENT = "Nothing, if the result does not depend on it"


def eval_mode(site: Site) -> Iterator[Fix]:
    """`.eval()` where the model is made: in the place of `.train()`, or behind the call of a model's class."""
    models = {each.name for each in site.tree.body if isinstance(each, ast.ClassDef) and _has_forward(each)}
    trained: list[Edit] = []
    made: list[Edit] = []
    for node in _calls(site):
        function, outer = node.func, site.parents.get(node)
        if isinstance(function, ast.Attribute) and function.attr == "train" and not node.keywords:
            trained.append(site.replaced(node, f"{site.code(function.value)}.eval()"))
        elif isinstance(function, ast.Name) and function.id in models and not isinstance(outer, ast.Attribute):
            made.append(site.after(node, ".eval()"))
    edits = [*trained, *made]
    for edit in edits:
        where = f", if it is the one of line {edit.line}" if len(edits) > 1 else ""
        yield fix(f"Export the model in eval mode{where}.", edit)


def functional_dropout(site: Site) -> Iterator[Fix]:
    """`F.dropout(x, 0.5)` drops in every mode; with `training=self.training` it obeys `.eval()`."""
    node, function = site.expression, site.function
    if not isinstance(node, ast.Call) or function is None or not function.args.args:
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    given = len(node.args) > 2 or any(keyword.arg in ("training", None) for keyword in node.keywords)
    if name.endswith("dropout") and not given and function.args.args[0].arg == "self":
        code = site.code(node)
        comma = "" if code.removesuffix(")").rstrip().endswith(",") else ","
        edit = site.replaced(node, f"{code.removesuffix(')').rstrip()}{comma} training=self.training)")
        yield fix("Drop only in training.", edit)


def buffer_of_tensor(site: Site) -> Iterator[Fix]:
    """An attribute that `forward` assigns as a buffer of its own name."""
    yield _buffer(site, "If the next call needs the value, make it a buffer", "tensor")


def buffer_of_number(site: Site) -> Iterator[Fix]:
    """A number that `forward` changes as a buffer of its own name."""
    value, of_layer = site.finding.facts.get("value"), site.finding.facts.get("of_layer", True)
    if not isinstance(value, (int, float)):
        yield fix(f"{INDEPENDENT}; else keep what it holds in buffers, or make it an input of the model.")
    elif of_layer:
        yield _buffer(site, f"{INDEPENDENT}; else make it a buffer", f"torch.tensor({value})")
    else:
        made = f"`self.register_buffer(…, torch.tensor({value}))`"
        yield fix(f"{INDEPENDENT}; else keep it in a buffer of the module that uses it: {made} in `__init__`.")


def _buffer(site: Site, said: str, start: str) -> Fix:
    """Advice to register an attribute in the module that has it."""
    owner, _, name = site.facts.get("name", "").rpartition(".")
    place = "self" if not owner else f"self.{owner}"
    made = f'{place}.register_buffer("{name}", {start})'
    return fix(f"{said}: `{made}` in `__init__`." if name.isidentifier() else f"{said} of its module.")


def unshared_input(site: Site) -> Iterator[Fix]:
    """A copy of the input above the line that writes it: the caller's tensor stays as it is."""
    name, function, statement = site.facts.get("name", ""), site.function, site.statement
    if function is None or statement is None:
        return
    if name in {argument.arg for argument in (*function.args.posonlyargs, *function.args.args)}:
        yield fix(f"Write to a copy of '{name}'.", site.above(statement, f"{name} = {name}.clone()"))


def tensor_input(site: Site) -> Iterator[Fix]:
    """A number in the tuple of example inputs as a tensor, if the file has just one such number."""
    value = site.finding.facts.get("value")
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        return
    found = [
        element
        for node in ast.walk(site.tree)
        if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load) and not _in_class(site, node)
        for element in node.elts
        if isinstance(element, ast.Constant) and element.value == value and type(element.value) is type(value)
    ]
    if len(found) == 1:
        yield fix("Give the number as a tensor.", site.replaced(found[0], f"torch.tensor({site.code(found[0])})"))


def _calls(site: Site) -> list[ast.Call]:
    """The calls outside of classes: there the model is made."""
    return [node for node in ast.walk(site.tree) if isinstance(node, ast.Call) and not _in_class(site, node)]


def _in_class(site: Site, node: ast.AST) -> bool:
    return any(isinstance(outer, ast.ClassDef) for outer in site.around(node))


def _has_forward(node: ast.ClassDef) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body)
