"""Check that a file of `torch.export.save` can be loaded without running code that is in it.

`torch.export.load` unpickles the example inputs without restrictions, evaluates texts of sizes as Python, and loads
shared objects that a package may hold. A file with tensors, sizes and operators alone needs none of that.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.export.pt2_archive import PT2ArchiveReader

from fxport.exporter.weights.pickles import load_restricted

# The records of an archive that hold data. All others, such as data/aotinductor with shared objects, are refused.
KNOWN = re.compile(
    r"models/\w+\.json|data/(?:weights|constants)/(?:(?:weight|tensor)_[\w.]+|\w+_config\.json)|data/sample_inputs/\w+\.pt|extra/.*|"
    r"archive_format|archive_version|byteorder|version|\.data/(?:version|serialization_id)"
)
PICKLED = re.compile(r"data/sample_inputs/\w+\.pt")
CONFIG = re.compile(r"(data/(?:weights|constants))/\w+_config\.json")
TARGET = re.compile(r"torch\.ops\.[\w.]+|_?operator\.\w+|math\.\w+|torch\.sym_\w+|torch\._sym_\w+")

FUNCTIONS = frozenset(
    """Symbol Integer Float Rational Add Mul Pow Mod PythonMod Max Min Abs FloorDiv CleanDiv CeilDiv ModularIndexing
    Where floor ceiling CeilToInt FloorToInt TruncToInt TruncToFloat RoundToInt RoundDecimal ToFloat IntTrueDiv
    FloatTrueDiv PowByNatural FloatPow LShift RShift Identity Not And Or Eq Ne Equality Unequality StrictLessThan
    LessThan StrictGreaterThan GreaterThan Lt Le Gt Ge Piecewise max min abs int float bool round""".split()  # noqa: SIM905
)
"""Names that texts of sizes may call: classes of expressions, of sympy and of PyTorch, and functions of numbers."""

METHODS = frozenset(("size", "stride", "storage_offset", "floor", "ceil", "trunc", "sqrt", "pow", "fmod"))
"""Methods that guards may call on inputs, and on the module math."""

POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift"))
LARGEST_NUMBER, LARGEST_EXPONENT, MOST_NODES = 2**63, 4096, 10_000
"""Bounds of a text of sizes: of its numbers, of the product of its exponents, and of its length: `9**9**9**9` never
ends."""

_PLAIN = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Name, ast.keyword)
_MARKS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)


def code_in(path: Path) -> str | None:
    """Return what in a file could run code when it is loaded; None where nothing could.

    Raises what PyTorch raises for a file that is no archive, or a damaged one.
    """
    reader = PT2ArchiveReader(str(path))
    names = reader.get_file_names()
    if unknown := [name for name in names if not KNOWN.fullmatch(name)]:
        return f"'{unknown[0]}' is no data"
    for name in names:
        if PICKLED.fullmatch(name) and not _is_plain(reader.read_bytes(name)):
            return f"the pickle '{name}' holds more than tensors"
        if config := CONFIG.fullmatch(name):
            for entry in json.loads(reader.read_bytes(name))["config"].values():
                stored = f"{config[1]}/{entry['path_name']}"
                tensor = stored.rpartition("/")[2].startswith(("weight_", "tensor_"))
                if not tensor or (entry["use_pickle"] and not _is_plain(reader.read_bytes(stored))):
                    return f"'{stored}' holds more than a tensor"
        if name.startswith("models/"):
            for kind, text in _texts(json.loads(reader.read_bytes(name))):
                fits, what = FORMS.get(kind, FORMS["size"])
                if not fits(text):
                    return f"'{text[:80]}' in '{name}' is no {what}"
    return None


def is_size(text: str) -> bool:
    """Return True if a text, evaluated as Python, can only be an expression of sizes."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    return (
        len(nodes) <= MOST_NODES and _is_small(nodes) and all(_is_harmless(node, id(node) in called) for node in nodes)
    )


FORMS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "target": (TARGET.fullmatch, "operator"),
    "size": (is_size, "expression of sizes"),
}
"""Test for the texts of a kind, and its name; other kinds are sizes."""


def _is_small(nodes: Sequence[ast.AST]) -> bool:
    """Return True if no number that is written there, and none that powers and shifts make, is of many digits.

    A power or a shift by another power would be: its exponent is a number that is written there.
    """
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant)]
    if any(isinstance(number, int | float) and abs(number) > LARGEST_NUMBER for number in numbers):
        return False
    product = 1.0
    for each in map(_number, filter(None, map(_exponent_of, nodes))):
        if not isinstance(each, ast.Constant) or not isinstance(each.value, int | float):
            return False
        product *= max(1.0, abs(each.value))
    return product <= LARGEST_EXPONENT


def _exponent_of(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.BinOp(op=ast.Pow() | ast.LShift(), right=exponent):
            return exponent
        case ast.Call(func=ast.Name(id=name), args=[_, exponent, *_]) if name in POWERS:
            return exponent
        case ast.Call(func=ast.Attribute(attr="pow"), args=[*_, exponent]):
            return exponent
    return None


def _number(node: ast.expr) -> ast.expr:
    """The constant in `3`, `-3`, `Integer(3)` and `Rational(1, 2)`; other expressions as they are."""
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=inner):
            return _number(inner)
        case ast.Call(func=ast.Name(id="Integer" | "Float" | "Rational"), args=[inner, *_]):
            return _number(inner)
    return node


def _is_harmless(node: ast.AST, called: bool) -> bool:
    match node:
        case ast.Name(id=name):
            return name in FUNCTIONS if called else not name.startswith("__")
        case ast.Attribute(attr=name):
            return called and name in METHODS
        case ast.Call(func=ast.Name() | ast.Attribute()):
            return True
        case ast.Subscript(slice=ast.Constant()):
            return True
    return isinstance(node, (*_PLAIN, *_MARKS))


def _texts(held: Any) -> Iterator[tuple[str, str]]:
    """The texts of a model that PyTorch evaluates or looks up, each with its kind."""
    waiting = [held]
    while waiting:
        now = waiting.pop()
        if isinstance(now, list):
            waiting += now
        if not isinstance(now, dict):
            continue
        for key, value in now.items():
            if key in ("expr_str", "target") and isinstance(value, str):
                yield key, value
            elif key == "guards_code" and isinstance(value, list):
                yield from (("guard", str(each)) for each in value)
            elif key == "range_constraints" and isinstance(value, dict):
                yield from (("range", str(each)) for each in value)
            waiting.append(value)


def _is_plain(pickled: bytes) -> bool:
    """Return True if a file of torch.save holds tensors and containers only, as PyTorch's restricted reader sees it."""
    try:
        load_restricted(io.BytesIO(pickled))
    except Exception:  # noqa: BLE001 - whatever it refuses, for whatever reason, is not loaded
        return False
    return True
