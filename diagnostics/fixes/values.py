"""Values that leave the tensors: math and numpy on tensors, items, assertions and prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from fxport.diagnostics.calls import tells
from fxport.diagnostics.fixes.conditions import reads_a_size
from fxport.diagnostics.fixes.numbers import is_number
from fxport.diagnostics.fixes.site import Site, fix
from fxport.diagnostics.model import Applicability, Edit, Fix

NAMES: Mapping[str, str] = {"fabs": "abs", "power": "pow", "absolute": "abs", "concatenate": "cat"}
SAME = frozenset(
    re.findall(
        r"\w+",
        "abs acos acosh arccos arcsin arctan asin asinh atan atan2 atanh ceil clip cos cosh erf erfc exp expm1 floor "
        "hypot isfinite isinf isnan lgamma log log10 log1p log2 maximum minimum pow round sign sin sinh sqrt square "
        "tan tanh trunc where ",
    )
)
"""Functions of `math` and `numpy` that torch has under the same name and with the same first arguments."""
TAKES: Mapping[str, tuple[int, int, int]] = {
    "atan2": (2, 2, 2),
    "hypot": (2, 2, 2),
    "maximum": (2, 2, 2),
    "minimum": (2, 2, 2),
    "pow": (2, 2, 1),
    "clip": (2, 3, 1),
    "where": (3, 3, 1),
    "cat": (1, 2, 1),
}
"""Functions of torch with more than one argument: how many at least, at most, and how many of the first are tensors."""
LIBRARIES = frozenset(("math", "np", "numpy"))
NUMBERS = frozenset(("item", "tolist", "size", "shape", "numel", "len", "int", "float", "round"))
"""Functions, methods and attributes that give Python numbers of a tensor."""
IN_EXPORT = "torch.compiler.is_exporting()"


def torch_functions(site: Site) -> Iterator[Fix]:
    """`math.sqrt(x)` and `np.tanh(x)` as torch.sqrt and torch.tanh; `sorted(x)` as torch.sort."""
    node = site.expression
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") in LIBRARIES:
        name = NAMES.get(node.func.attr, node.func.attr)
        if (node.func.attr in SAME or node.func.attr in NAMES) and _are_tensors(site, name, node):
            yield fix(f"Use torch.{name}.", site.replaced(node.func, f"torch.{name}"))
    elif isinstance(node.func, ast.Name) and node.func.id == "sorted" and len(node.args) == 1 and not node.keywords:
        yield fix("Use torch.sort.", site.replaced(node, f"torch.sort({site.code(node.args[0])}).values"))


def _are_tensors(site: Site, name: str, call: ast.Call) -> bool:
    """Return whether torch's function takes what a call of `math` or `numpy` gives: tensors where it asks for them."""
    least, most, tensors = TAKES.get(name, (1, 1, 1))
    numbers = [is_number(site, each) for each in call.args]
    if name == "pow":
        return len(numbers) == most and not all(numbers)
    return least <= len(numbers) <= most and not any(numbers[:tensors]) and (name == "cat" or not call.keywords)


def stay_in_torch(site: Site) -> Iterator[Fix]:
    """`torch.from_numpy(x.numpy().cumsum(0))` as `x.cumsum(0)`, if the tensor has the same methods."""
    node = site.expression
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "numpy":
        return
    for outer in site.around(node):
        if isinstance(outer, ast.Call) and site.code(outer.func).endswith(("from_numpy", "as_tensor", "torch.tensor")):
            if len(outer.args) == 1:
                inner = site.code(outer.args[0]).replace(site.code(node), site.code(node.func.value), 1)
                yield fix("Stay in torch.", site.replaced(outer, inner))
            return


def promise(site: Site) -> Iterator[Fix]:
    """torch._check on the condition of an item or a size: PyTorch then takes that way; other values raise."""
    node, statement, function = site.expression, site.statement, site.function
    if node is None or statement is None or function is None:
        return
    test = next((each.test for each in (node, *site.around(node)) if isinstance(each, (ast.If, ast.IfExp))), node)
    if not isinstance(test, ast.Compare) or not _has_number(site, test):
        return
    if any(isinstance(outer, ast.While) and node in ast.walk(outer.test) for outer in site.around(node)):
        return  # a loop whose condition always holds has no end
    said = site.code(test)
    for condition in (said, f"not ({said})"):
        edit = site.above(statement, f"torch._check({condition})")
        made = fix(f"Promise that '{condition}' holds in every run.", edit)
        yield replace(made, applicability=Applicability.DECISION)


def _has_number(site: Site, test: ast.expr) -> bool:
    """Return True if a condition reads a size, or an item of a tensor: nothing can be promised of a tensor."""
    read = {each.id for each in ast.walk(test) if isinstance(each, ast.Name)}
    made = [
        each.value
        for each in (ast.walk(site.function) if site.function else ())
        if isinstance(each, ast.Assign)
        and read & {name.id for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    ]
    return any(NUMBERS & _called(each) for each in (test, *made))


def _called(value: ast.expr) -> set[str]:
    nodes = list(ast.walk(value))
    attributes = {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    return attributes | {
        each.func.id for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }


def outside_export(site: Site) -> Iterator[Fix]:
    """Yield fixes that skip an assertion, a print or a raise, which only look at values, during an export."""
    statement = site.statement
    if isinstance(statement, ast.Assert):
        test = f"{IN_EXPORT} or {site.operand(statement.test)}"
        yield fix("Leave the assertion out of the graph.", site.replaced(statement.test, test))
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and tells(statement.value):
        edits = (Edit(site.path, statement.lineno, 1, statement.lineno, 1, _guard(site, statement)),)
        yield fix("Leave the output out of the graph.", *edits, _deeper(site, statement))
    elif (
        isinstance(statement, ast.If) and not statement.orelse and all(isinstance(e, ast.Raise) for e in statement.body)
    ):
        test = f"not {IN_EXPORT} and {site.operand(statement.test)}"
        yield fix("Leave the check out of the graph.", site.replaced(statement.test, test))


def in_words(site: Site) -> Iterator[Fix]:
    """Yield a textual fix for the Python construct that uses a tensor's value, where no edit can be generated.

    Keys of WORDS are names of functions and of `ast` nodes.
    """
    node = site.expression
    inner: ast.AST | None = None
    for outer in (node, *site.around(node)) if node is not None else ():
        if isinstance(outer, ast.While):
            if "reason" not in site.facts:  # else the loop was tried as one in vain
                yield fix(LEFT if reads_a_size(outer.test) else WHILE)
            return
        name = site.code(outer.func).rpartition(".")[2] if isinstance(outer, ast.Call) else _asking(outer, inner)
        if name in WORDS:
            yield fix(WORDS[name])
            return
        inner = outer


def _asking(node: ast.AST, inner: ast.AST | None) -> str:
    """The kind of a node that asks for the value of its part `inner`; "" for one that only holds it."""
    if isinstance(node, ast.For):
        return "For" if node.iter is inner else ""
    if isinstance(node, ast.Subscript):
        return "Subscript" if inner in (None, node.slice) else ""
    return type(node).__name__


WHILE = "Write the loop with torch.while_loop, whose condition is a tensor."
LEFT = (
    "Sizes may not change in a loop: keep all elements and a mask of those that are left, in a `for` over them: "
    "`if left[i]: left = left & ~near(i)`."
)
CHOSEN = "A list of which values choose the length has no place in a graph: choose by a mask, `x[mask]`."
WORDS: Mapping[str, str] = {
    "comprehension": CHOSEN,
    "list": CHOSEN,
    "filter": CHOSEN,
    "set": "Use torch.unique.",
    "max": "Use torch.max, or torch.argmax for an index: `rows[scores.argmax()]`.",
    "min": "Use torch.min, or torch.argmin for an index: `rows[scores.argmin()]`.",
    "For": "Compute on the whole tensor by a mask, `torch.where(mask, a, b)`, in the place of a turn for each value.",
    "Subscript": "Compute all of them and choose: `torch.stack([part(x) for part in parts])[index]`.",
    "range": "Count in the graph with torch.while_loop, or give the number of turns as a Python number.",
    "int": "Keep the number a tensor, or give it to forward as a Python number that is the same in every run.",
    "float": "Keep the number a tensor: arithmetic works on it as on a float.",
    "sorted": "Use torch.sort.",
    "len": "A size that depends on values has no Python number: use a mask of fixed size, or torch.cond on x.any().",
}


def _guard(site: Site, statement: ast.stmt) -> str:
    return f"{site.indent(statement)}if not {IN_EXPORT}:\n"


def _deeper(site: Site, statement: ast.stmt) -> Edit:
    """The statement's first line four columns deeper; its other lines are in brackets and need not move."""
    return Edit(site.path, statement.lineno, 1, statement.lineno, 1, "    ")
