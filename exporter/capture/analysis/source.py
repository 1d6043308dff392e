"""The source of a function in memory: parsed, and shown to be what the function was compiled from.

A file may have changed since it was imported, and a notebook cell has no file. Source that does not compile to the same
instructions is the source of another function, and is refused.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from fxport.exporter.capture.analysis.names import bound, own_nodes

ANONYMOUS = "_"
"""A class of this name, which does not mangle private names, stands around functions that no class holds."""

FUTURE_FLAGS = 0x1FF0000
"""The bits of a code's flags that `from __future__ import ...` sets."""

CHANGED = "its source is not what was imported: the file has changed, or was rewritten, as pytest does with assert"

UNSUPPORTED_CALLS = frozenset({"locals", "vars", "dir", "eval", "exec"})
"""Builtins that see the names of the frame they are called in, which rewriting moves to other frames."""

YIELDS = (ast.Yield, ast.YieldFrom)

UNSUPPORTED_NODES = {
    ast.Await: "a coroutine",
    ast.AsyncFor: "a coroutine",
    ast.AsyncWith: "a coroutine",
}


class Unknown(Exception):
    """The analysis cannot tell what a function does; the text says why."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function's syntax tree with the line numbers of its file, and the code object it belongs to."""

    tree: ast.FunctionDef
    code: CodeType

    @staticmethod
    def of(code: CodeType) -> FunctionSource:
        """Parse the source of a code object.

        Raises:
            Unknown: There is no source, it is not that of this code, or the function is of a kind that is not analysed.
        """
        tree = _parsed(_text_of(code), code)
        _require_supported(tree)
        found = FunctionSource(tree, code)
        if not _same_instructions(found.compiled(tree), code):
            raise Unknown(CHANGED)
        return found

    def compiled(self, tree: ast.FunctionDef) -> CodeType:
        """Compile a function that stands in the place of the original, with the same free variables and class."""
        holder, _, own = self.code.co_qualname.rpartition(".")
        owner = holder.rpartition(".")[2]
        inside = owner if own == tree.name and owner.isidentifier() else ANONYMOUS
        free = [name for name in self.code.co_freevars if name != "__class__"]
        known = "pass" if inside in free else f"global {inside}"  # which the function may refer to
        around = ast.parse(f"def _outer({', '.join(free)}):\n {known}\n class {inside}:\n  pass")
        around.body[0].body[1].body = [tree]  # type: ignore[attr-defined]  # a class in a function was parsed
        # Python calls attributes of what a file imports by other instructions than methods.
        around.body[:0] = [ast.Import([ast.alias(name)]) for name in sorted(_imported(self.code.co_filename))]
        ast.fix_missing_locations(around)
        flags = self.code.co_flags & FUTURE_FLAGS
        whole = compile(around, self.code.co_filename, "exec", flags=flags, dont_inherit=True)
        found = _only(_only(_only(whole, "_outer")), tree.name)
        return found.replace(co_qualname=self.code.co_qualname)


def _text_of(code: CodeType) -> str:
    """Return the lines of a code object, indented as they stand in the file, which is read again if it has changed."""
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)
    is_in_archive = not lines and not code.co_filename.startswith("<")  # which inspect looks for in all modules
    try:
        text = inspect.getsource(code) if is_in_archive else "".join(inspect.getblock(lines[code.co_firstlineno - 1 :]))
    except (OSError, TypeError, SyntaxError) as error:
        raise Unknown("its source cannot be read") from error
    if not text:
        raise Unknown(CHANGED if lines else "its source cannot be read")
    return text


def _parsed(text: str, code: CodeType) -> ast.FunctionDef:
    """Parse with columns as they stand in the file."""
    try:
        whole = ast.parse(f"if True:\n{text}" if text[:1].isspace() else f"\n{text}")
    except (SyntaxError, ValueError) as error:
        raise Unknown("its source cannot be read by itself, as that of a lambda in a longer line") from error
    top = whole.body[0].body[0] if isinstance(whole.body[0], ast.If) else whole.body[0]
    if not isinstance(top, ast.FunctionDef) or top.name != code.co_name:
        raise Unknown("it is a lambda, a comprehension or a coroutine")
    ast.increment_lineno(whole, code.co_firstlineno - 2)
    top.decorator_list = []
    return top


@lru_cache(maxsize=64)
def _imported(filename: str) -> frozenset[str]:
    """Return the names that a file imports outside of its functions and classes, also in an `if` or `try`."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(bound(node for node in own_nodes(tree) if isinstance(node, (ast.Import, ast.ImportFrom))) - {"*"})


def _require_supported(tree: ast.FunctionDef) -> None:
    for node in ast.walk(tree):
        kind = UNSUPPORTED_NODES.get(type(node))
        if kind is not None:
            raise Unknown(f"it is {kind}, or holds one")
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in UNSUPPORTED_CALLS:
            raise Unknown(f"it calls {called.id}(), which sees the names of the function as they are")
    if (reason := _refusal_of_generator(tree)) is not None:
        raise Unknown(reason)
    for each in ast.walk(tree):
        if each is not tree and isinstance(each, ast.FunctionDef) and is_generator(each):
            each.plain = True  # type: ignore[attr-defined]  # it stays as it is


def is_generator(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, YIELDS) for node in own_nodes(function))


def _refusal_of_generator(function: ast.FunctionDef) -> str | None:
    """Return why a generator cannot be rewritten; None for other functions, and for those that can."""
    nodes = [*own_nodes(function)]
    yields = [node for node in nodes if isinstance(node, YIELDS)]
    alone = [node.value for node in nodes if isinstance(node, ast.Expr)]
    around = [each for node in nodes if isinstance(node, (ast.Try, ast.With)) for each in ast.walk(node)]
    returned = [node.value for node in nodes if isinstance(node, ast.Return)]
    if not yields:
        return None
    if any(node not in alone for node in yields):
        return "it is a generator that is sent values"
    if any(node in around for node in yields):
        return "it is a generator with a yield within try or with"
    return "it is a generator that returns a value" if any(returned) else None


def _only(code: CodeType, name: str | None = None) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and name in (None, each.co_name))


def _same_instructions(one: CodeType, other: CodeType) -> bool:
    """Compare two code objects, and those nested in them, but for places in the file and for names of what is around.

    The body of a class begins with its qualified name, which has the names of all functions and classes around it.
    """
    if (one.co_code, one.co_names, one.co_varnames, one.co_freevars) != (
        other.co_code,
        other.co_names,
        other.co_varnames,
        other.co_freevars,
    ):
        return False
    pairs = zip(one.co_consts, other.co_consts, strict=False)
    own = (one.co_qualname, other.co_qualname)
    return len(one.co_consts) == len(other.co_consts) and all(pair == own or _same_constant(*pair) for pair in pairs)


def _same_constant(one: object, other: object) -> bool:
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        return _same_instructions(one, other)
    return type(one) is type(other) and repr(one) == repr(other)
