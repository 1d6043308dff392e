"""Columns: where on a line of Python an operator is written. Each text is parsed once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache

# Operators that are written without a call, by the name that ATen has for them.
_OPERATORS: Mapping[str, tuple[type[ast.AST], ...]] = {
    "add": (ast.Add,),
    "sub": (ast.Sub,),
    "rsub": (ast.Sub,),
    "mul": (ast.Mult,),
    "div": (ast.Div, ast.FloorDiv),
    "truediv": (ast.Div,),
    "floor_divide": (ast.FloorDiv,),
    "floordiv": (ast.FloorDiv,),
    "remainder": (ast.Mod,),
    "mod": (ast.Mod,),
    "pow": (ast.Pow,),
    "matmul": (ast.MatMult,),
    "bitwise_and": (ast.BitAnd,),
    "bitwise_or": (ast.BitOr,),
    "bitwise_xor": (ast.BitXor,),
    "bitwise_left_shift": (ast.LShift,),
    "bitwise_right_shift": (ast.RShift,),
    "bitwise_not": (ast.Invert,),
    "neg": (ast.USub,),
    "eq": (ast.Eq,),
    "ne": (ast.NotEq,),
    "lt": (ast.Lt,),
    "le": (ast.LtE,),
    "gt": (ast.Gt,),
    "ge": (ast.GtE,),
    "getitem": (ast.Subscript,),
    "slice": (ast.Subscript,),
    "select": (ast.Subscript,),
    "index": (ast.Subscript,),
    "index_put": (ast.Subscript,),
}
# What an operator is called where it is not called by its ATen name.
_WRITTEN_AS: Mapping[str, tuple[str, ...]] = {
    "view": ("reshape", "flatten", "unflatten"),
    "mm": ("matmul",),
    "bmm": ("matmul", "einsum"),
    "_to_copy": ("to", "float", "half", "int", "long", "bool", "double", "bfloat16"),
    "unique2": ("unique",),
    "sparse_mm": ("mm",),
    "local_scalar_dense": ("item", "tolist", "int", "float", "bool"),
}
_NAMESPACES = ("linalg_", "fft_", "special_")  # `torch.linalg.qr` is aten.linalg_qr
_STATEMENT = frozenset(("<statement>",))  # no operator is called so
TELLING = frozenset(("print", "debug", "info", "warn", "warning", "error", "exception", "critical", "log", "write"))
CHECKING = frozenset(("_assert", "_check", "_check_value", "_check_index", "_check_type"))
"""Functions of PyTorch whose message is for people, as that of an assert is."""

"""Functions whose arguments are for people to read."""
Located = tuple[ast.expr | ast.stmt, frozenset[str]]


def span_of_call(text: str, line: int, call: str) -> tuple[int, int] | None:
    """The smallest expression on `line` that does `call`, as 0-based UTF-16 columns (start, end) on that line.

    `call` is an operator's name in any spelling: "aten.gelu.default", "torch.ops.mylib.foo.default", "add_".
    None if no expression fits or the text is not Python.
    """
    return _smallest(text, line, names_of(call))


def span_of_statement(text: str, line: int) -> tuple[int, int] | None:
    """The only statement that begins on `line`, as `span_of_call`: the line without a comment. None for several."""
    begun = [node for node, names in _expressions(text).get(line, ()) if names is _STATEMENT and node.lineno == line]
    if len(begun) > 1:
        return None
    return _smallest(text, line, _STATEMENT)


def span_of_test(text: str, line: int) -> tuple[int, int] | None:
    """Return the columns of the condition of the `if`, `while` or `assert`, or of the iterable of the `for`, on `line`,
    as `span_of_call` does.
    """
    for node, _ in _expressions(text).get(line, ()):
        if not isinstance(node, (ast.If, ast.While, ast.Assert, ast.For)):
            continue
        asked = node.iter if isinstance(node, ast.For) else node.test
        if node.lineno == line == asked.end_lineno:
            code = text.split("\n")[line - 1]
            return utf16_column(code, asked.col_offset), utf16_column(code, asked.end_col_offset or 0)
    return None


def span_of_choice(text: str, line: int, columns: tuple[int, int]) -> tuple[int, int] | None:
    """The condition of the `a if condition else b` that fills these columns of a line, as `span_of_call`."""
    code = text.split("\n")[line - 1]
    for node, _ in _expressions(text).get(line, ()):
        if isinstance(node, ast.IfExp) and node.end_lineno == line:
            ends = (node.col_offset, node.end_col_offset or 0), (node.test.col_offset, node.test.end_col_offset or 0)
            (whole, test) = ((utf16_column(code, first), utf16_column(code, last)) for first, last in ends)
            if whole == columns:
                return test
    return None


def only_tells(text: str, line: int) -> bool:
    """Return True if the statement on `line` prints, logs, raises or asserts: nothing else depends on its text."""
    here = [node for node, names in _expressions(text).get(line, ()) if names is _STATEMENT]
    calls = [each.value for each in here if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    return any(isinstance(node, (ast.Raise, ast.Assert)) for node in here) or any(
        tells(each) or _called(each.func) in CHECKING for each in calls
    )


def is_formatted(text: str, line: int, column: int) -> bool:
    """Return True if `"..." % values`, with its text written there, begins at this place; columns count bytes."""
    here = (node for node, _ in _expressions(text).get(line, ()) if isinstance(node, ast.BinOp))
    return any(
        isinstance(node.op, ast.Mod)
        and (node.lineno, node.col_offset) == (line, column)
        and (isinstance(node.left, ast.JoinedStr) or isinstance(getattr(node.left, "value", None), str))
        for node in here
    )


def tells(call: ast.Call) -> bool:
    """Return True if a call only writes output for people: `print(...)`, `log.info(...)`."""
    return _called(call.func) in TELLING


def last_return(text: str, line: int) -> int | None:
    """The line of the last `return` in the function that begins on `line`, decorators included; None without one."""
    return _last(text, line, lambda each: isinstance(each, ast.Return))


def last_assignment(text: str, line: int, attribute: str) -> int | None:
    """The line of the last `….attribute = …` in the function that begins on `line`; None without one.

    An entry of the attribute, `….attribute[key] = …`, is as good.
    """

    def assigns(each: ast.stmt) -> bool:
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        owners = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
        return any(isinstance(owner, ast.Attribute) and owner.attr == attribute for owner in owners)

    return _last(text, line, assigns)


def last_setting(text: str, line: int, names: Collection[str]) -> int | None:
    """The line of the last `name = …`, `….name = …`, `…["name"] = …` or `setattr(…, "name", …)` in a function.

    The function begins on `line`; None without one for any of the names.
    """

    def assigns(each: ast.stmt) -> bool:
        targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
        parts = [[each.value, each.slice] if isinstance(each, ast.Subscript) else [each] for each in targets]
        call = each.value if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) else None
        if call is not None and _called(call.func) == "setattr":
            parts.append(call.args[1:2])
        return any(_speaks_of(part, names) for target in parts for part in target)

    return _last(text, line, assigns)


def last_naming(text: str, line: int, names: Collection[str]) -> int | None:
    """The line of the last statement with one of the names in the function that begins on `line`."""
    return _last(text, line, lambda each: any(_speaks_of(node, names) for node in ast.walk(each)))


def _speaks_of(node: ast.AST | None, names: Collection[str]) -> bool:
    words = (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "value", None))
    return any(isinstance(each, str) and each in names for each in words)


def _last(text: str, line: int, wanted: Callable[[ast.stmt], bool]) -> int | None:
    """The line of the last statement of a kind in the function that begins on `line`."""
    for node, _ in _expressions(text).get(line, ()):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _first_line(node) == line:
            return max((each.lineno for each in own_statements(node) if wanted(each)), default=None)
    return None


def _first_line(node: ast.AST) -> int:
    """The line on which an expression or a statement begins, decorators included."""
    return min((each.lineno for each in getattr(node, "decorator_list", ())), default=getattr(node, "lineno", 1))


def scope_of(text: str, line: int) -> str:
    """The class and function in which a line stands: "Model.forward"; "" for none, or a text that is not Python."""
    return max((name for first, last, name in _scopes(text) if first <= line <= last), key=len, default="")


@lru_cache(maxsize=16)
def _scopes(text: str) -> tuple[tuple[int, int, str], ...]:
    """First line, last line and qualified name of all classes and functions."""

    def inside(node: ast.AST, owner: str) -> Iterator[tuple[int, int, str]]:
        for child in ast.iter_child_nodes(node):
            name = owner
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{owner}.{child.name}" if owner else child.name
                yield child.lineno, child.end_lineno or child.lineno, name
            yield from inside(child, name)

    try:
        return tuple(inside(ast.parse(text), ""))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def own_statements(function: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function in the order of the source, without those of functions and classes inside it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from own_statements(node)


def _smallest(text: str, line: int, wanted: frozenset[str]) -> tuple[int, int] | None:
    fitting = [node for node, names in _expressions(text).get(line, ()) if names & wanted]
    if not fitting:
        return None
    node = min(fitting, key=_extent)
    code = text.split("\n")[line - 1].rstrip("\r")
    start = utf16_column(code, node.col_offset) if node.lineno == line else _indent(code)
    end = utf16_column(code, node.end_col_offset or 0) if node.end_lineno == line else utf16_length(code.rstrip())
    return (start, end) if start < end else None


def names_of(call: str) -> frozenset[str]:
    """Return the names by which Python code may call an operator: "aten.add_.Tensor" → {"add"}, with its synonyms."""
    parts = [part for part in call.replace("::", ".").split(".") if part]
    if len(parts) > 1 and parts[0] == "torch":
        parts = parts[2:] if parts[1] == "ops" else parts[1:]
    known = parts[1:2] if len(parts) > 1 else parts
    names = {name.strip("_") for name in (*known, *parts[-1:]) if name}
    names |= {name.partition("_")[2] for name in names if name.startswith(_NAMESPACES)}
    return frozenset(names.union(*(_WRITTEN_AS.get(name, ()) for name in (*names, *known))))


def utf16_length(text: str) -> int:
    """The length of a text in UTF-16 code units: 2 for a character beyond the basic plane."""
    return len(text) + (0 if text.isascii() else sum(character > "\uffff" for character in text))


def cut(line: str, column: int, end_column: int | None) -> str:
    """The part of a line between two 1-based UTF-16 columns."""
    units = line.encode("utf-16-le", "surrogatepass")
    end = len(units) if end_column is None else 2 * (end_column - 1)
    return units[2 * (column - 1) : end].decode("utf-16-le", "replace")


@lru_cache(maxsize=64)
def _expressions(text: str) -> Mapping[int, Sequence[Located]]:
    """Line → the expressions and statements on it, with the names of the operators that they do."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines: dict[int, list[Located]] = defaultdict(list)
    for node, names in _named(tree):
        for line in range(_first_line(node), (node.end_lineno or node.lineno) + 1):
            lines[line].append((node, names))
    return dict(lines)


def _named(tree: ast.AST) -> Iterator[Located]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            yield node, _STATEMENT
        if isinstance(node, ast.IfExp):
            yield node, frozenset()
        if isinstance(node, ast.Call):
            if name := _called(node.func):
                yield node, frozenset((name.strip("_"),))
        elif isinstance(node, (ast.expr, ast.AugAssign)) and (signs := _signs(node)):
            yield node, frozenset(name for name, kinds in _OPERATORS.items() if signs & set(kinds))


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _signs(node: ast.AST) -> set[type[ast.AST]]:
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
        return {type(node.op)}
    if isinstance(node, ast.Compare):
        return {type(sign) for sign in node.ops}
    return {ast.Subscript} if isinstance(node, ast.Subscript) else set()


def _extent(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return (node.end_lineno or node.lineno) - node.lineno, (node.end_col_offset or 0) - node.col_offset


def utf16_column(line: str, offset: int) -> int:
    """Python's `ast` and code objects count bytes of UTF-8; SARIF counts UTF-16 units. Both from 0."""
    return utf16_length(line.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "replace"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
