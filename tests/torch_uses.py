"""Uses of private parts of PyTorch in a source file, found with `ast`.

A use is private by its name (`torch._C`, `tensor._version`, `torch.fx.experimental`), by what is done to it (a patch,
an assignment to an attribute of PyTorch's) or by its class (an attribute that only a private class of PyTorch's has).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

OURS = "fxport"
"""The package whose names may stand for parts of PyTorch."""

PATCHES = ("mock.patch.object", "patch.object", "mock.patch.multiple", "patch.multiple")
DICTIONARIES = ("mock.patch.dict", "patch.dict")
BY_TEXT = ("mock.patch", "patch")
ACCESSORS = ("getattr", "setattr", "hasattr", "delattr")
FILES = ("__file__", "__path__")
DOTTED = re.compile(r"torch(\.\w+)+(:[\w.]+)?")
"""A string that names a part of PyTorch, as `import_module` and `mock.patch` take it."""


@dataclass(frozen=True, slots=True)
class Use:
    """One use: the full name ("torch._C._nn"), or only the attribute (".item_memo") where its owner is not known."""

    name: str
    line: int
    overrides: bool = False
    """It is a method that a class of ours defines; where PyTorch's class has none of that name, nothing is private."""


def is_private(name: str) -> bool:
    """Return whether PyTorch gives no promise for a full name: a leading underscore in a part, or fx.experimental.

    `torch.ops.aten._softmax` is an operator, whose schema is stable, and no attribute of torch.
    """
    parts = name.split(".")
    if parts[0] != "torch" or parts[1:2] == ["ops"]:
        return False
    return any(map(is_hidden, parts)) or name.startswith("torch.fx.experimental")


def is_hidden(name: str) -> bool:
    """Return whether a name begins with an underscore and is no dunder."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def uses(source: str, members: Collection[str] = ()) -> Iterator[Use]:
    """Find all private uses in a source text.

    Args:
        source: The text of a Python file.
        members: Names of attributes that private classes of PyTorch's have, and no public ones.
    """
    tree = ast.parse(source)
    names, own, bound = names_of(tree), defined_in(tree), Counter(_bound(tree))
    imports = {
        name for node in nodes_of(tree) if isinstance(node, ast.Import | ast.ImportFrom) for name in imported(node)
    }
    certain = {name: full for name, full in names.items() if name not in imports or not bound[name]}
    docstrings = {id(node.value) for node in nodes_of(tree) if isinstance(node, ast.Expr)}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (Use(name, node.lineno) for name in imported(node).values() if is_private(name))
        elif isinstance(node, ast.Attribute):
            yield from _of_attribute(node, certain, own, members)
            if (full := resolved(node, names)) != resolved(node, certain) and is_private(full or ""):
                yield Use(full or "", node.lineno)  # a name that is imported, and a parameter elsewhere
        elif isinstance(node, ast.Call):
            yield from _of_call(node, names, own)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            text = node.value.replace(":", ".")
            if DOTTED.fullmatch(node.value) and is_private(text):
                yield Use(text, node.lineno)
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "co_name":
            texts = (
                each.value for part in node.comparators for each in ast.walk(part) if isinstance(each, ast.Constant)
            )
            yield from (Use(f".{text}", node.lineno) for text in texts if isinstance(text, str))
        elif isinstance(node, ast.ClassDef):
            yield from _of_overrides(node, names)


@lru_cache(maxsize=1)
def nodes_of(tree: ast.AST) -> Sequence[ast.AST]:
    """Return the nodes of a tree as `ast.walk` does, in half the time and once for all who ask for them."""
    found = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def _of_attribute(
    node: ast.Attribute, names: Mapping[str, str], own: Collection[str], members: Collection[str]
) -> Iterator[Use]:
    full = resolved(node, names)
    written = not isinstance(node.ctx, ast.Load)
    if full is not None:
        if is_private(full) or (full.startswith("torch.") and (written or node.attr in FILES)):
            yield Use(full, node.lineno)
    elif isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and node.attr in own:
        return
    elif (is_hidden(node.attr) and node.attr not in own) or node.attr in members:
        yield Use(f".{node.attr}", node.lineno)


def _of_call(node: ast.Call, names: Mapping[str, str], own: Collection[str]) -> Iterator[Use]:
    called = ast.unparse(node.func)
    for keyword in node.keywords:
        if keyword.arg is not None and is_hidden(keyword.arg):
            yield Use(f"{keyword.arg}=", node.lineno)
    if called in BY_TEXT and node.args and isinstance(node.args[0], ast.Constant):
        yield Use(str(node.args[0].value).replace(":", "."), node.lineno)
    if called in DICTIONARIES and node.args:
        yield Use(_full_or_last(node.args[0], names), node.lineno)
    if called in (*PATCHES, *ACCESSORS) and len(node.args) > 1:
        yield from _of_named(node, called, names, own)


def _of_named(node: ast.Call, called: str, names: Mapping[str, str], own: Collection[str]) -> Iterator[Use]:
    """A patch, or an access by name: all patches, and of the others those of private or unknown names."""
    owner, name = node.args[0], node.args[1]
    base = resolved(owner, names)
    if base is not None and base.split(".")[0] != "torch":
        return
    patched = called in PATCHES or (called in ("setattr", "delattr") and base is not None)
    if not isinstance(name, ast.Constant):
        if patched or base is not None:
            yield Use(f"{ast.unparse(owner)}.<{ast.unparse(name)}>", node.lineno)
        return
    text = str(name.value)
    full = f"{base}.{text}" if base is not None else f".{text}"
    if patched or is_private(full) or (is_hidden(text) and text not in own):
        yield Use(full, node.lineno)


def _of_overrides(node: ast.ClassDef, names: Mapping[str, str]) -> Iterator[Use]:
    """Methods of a class that derives from a private one, and names in any class that PyTorch looks up."""
    for each in node.body:
        targets = each.targets if isinstance(each, ast.Assign) else []
        named = [each.name] if isinstance(each, ast.FunctionDef) else [t.id for t in targets if isinstance(t, ast.Name)]
        yield from (Use(f".{name}", each.lineno) for name in named if name.startswith("_torch_"))
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
    for base in node.bases:
        full = resolved(base, names)
        if full is not None and is_private(full):
            yield from (Use(f"{full}.{each.name}", each.lineno, overrides=True) for each in methods)


def names_of(tree: ast.AST) -> dict[str, str]:
    """Map the names in a file to what they stand for, as far as that is imported, or assigned once from what is."""
    names: dict[str, str] = {}
    for node in nodes_of(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {name: full for name, full in imported(node).items() if full.split(".")[0] != OURS}
    texts = {
        node.targets[0].id: node.value.value
        for node in nodes_of(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    counts = Counter(_bound(tree))
    for target, value in _bindings(tree):
        full = resolved(value, names) or _loaded(value, texts)
        if full is not None and counts[target] == 1:
            names.setdefault(target, full)
    return names


def _bound(tree: ast.AST) -> Iterator[str]:
    """Names as often as something is bound to them, beside imports."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _bindings(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names with what they are assigned, also as one of a tuple, and those of a loop with what it begins with."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Tuple | ast.List):
            target, value = node.target, node.iter.elts[0]
        else:
            continue
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        yield from ((name.id, each) for name, each in pairs if isinstance(name, ast.Name))


def _loaded(node: ast.expr, texts: Mapping[str, object]) -> str | None:
    """The module that `import_module("torch.…")` or `sys.modules["torch.…"]` gives."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
        key = node.args[0]
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
        key = node.slice
    else:
        return None
    text = key.value if isinstance(key, ast.Constant) else texts.get(key.id) if isinstance(key, ast.Name) else None
    return text if isinstance(text, str) and DOTTED.fullmatch(text) else None


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, each with what it stands for; `import torch.a.b` is under "torch.a.b"."""
    if isinstance(node, ast.Import):
        found = {alias.asname or alias.name: alias.name for alias in node.names}
        return found | {alias.name.split(".")[0]: alias.name.split(".")[0] for alias in node.names if not alias.asname}
    if node.level or not node.module:
        return {}
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}


def resolved(node: ast.expr, names: Mapping[str, str]) -> str | None:
    """The full name of an expression that reads a part of PyTorch; None for any other."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (base := resolved(node.value, names)) is not None:
        return f"{base}.{node.attr}"
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return _loaded(node, {}) or (names.get("MODULE") if ast.unparse(node.args[0]) == "MODULE" else None)
    return None


def _full_or_last(node: ast.expr, names: Mapping[str, str]) -> str:
    full = resolved(node, names)
    return full if full is not None else f".{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def defined_in(tree: ast.AST) -> frozenset[str]:
    """Names that the file itself defines: functions, classes, fields, attributes of self."""
    found = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
    return frozenset(found)
