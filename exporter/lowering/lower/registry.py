"""Declaration of lowerings, and construction of the table of all lowerings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload

from fxport.diagnostics.errors import FxportError

IGNORED = frozenset(
    {"device", "layout", "pin_memory", "memory_format", "generator", "non_blocking", "copy", "out", "dtype_layout"}
)
"""ATen arguments about where and how a tensor is stored: they change no value, and no lowering is given them."""


class LoweringError(FxportError):
    """A lowering is declared wrongly: a duplicate, or a signature that does not fit the ATen schema."""


class Unsupported(FxportError):
    """Raised by a lowering that cannot express these arguments; the text is the reason that the user reads."""


@dataclass(frozen=True)
class Lowering:
    """A function that writes ONNX for one or more ATen overloads. See `lowering`."""

    targets: tuple[Any, ...]
    function: Callable[..., Any]
    since: int = 1
    """The first opset at which it can be used."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]  # a lowering is documented by its function
        return self.function.__doc__

    @property
    def name(self) -> str:
        return self.function.__name__


def lowering(*targets: Any, since: int = 1) -> Callable[[Callable[..., Any]], Lowering]:
    """Declares the ONNX form of ATen overloads or higher-order ops.

    The function's parameters after `op` are those of the ATen schema, in its order: positional ones by position,
    keyword-only ones by name. Tensors arrive as `Value`, symbolic sizes as sympy expressions, dtypes as ONNX element
    types, graph modules as they are, everything else as in ATen. Arguments about storage (`IGNORED`) do not arrive.

    A target may be a name, as in "torchvision.nms.default": an op that another package registers once it is imported.

    Raises `LoweringError` at import where the signature cannot take the schema's arguments; for an op given by its
    name, when an export begins.
    """

    def declare(function: Callable[..., Any]) -> Lowering:
        for target in targets:
            if not isinstance(target, str):
                check_signature(target, function)
        return Lowering(targets, function, since)

    return declare


def check_signature(target: Any, function: Callable[..., Any]) -> None:
    """Raises `LoweringError` unless `function(op, …)` accepts every argument that the target's schema may bring."""
    if isinstance(target, HigherOrderOperator):
        return
    if not isinstance(target, OpOverload):
        raise LoweringError(f"{function.__name__}: {target!r} is neither an ATen overload nor a higher-order op")
    parameters = list(inspect.signature(function).parameters.values())[1:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = {p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    takes_any = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    arguments = [a for a in target._schema.arguments if a.name not in IGNORED]
    given = [a for a in arguments if not a.kwarg_only]
    required = sum(p.default is p.empty for p in positional)
    if not takes_any and len(positional) < len(given):
        raise LoweringError(f"{function.__name__} takes {len(positional)} arguments, but '{target._schema}' has more")
    if required > len(given):
        raise LoweringError(f"{function.__name__} asks for {required} arguments, but '{target._schema}' has fewer")
    missing = {a.name for a in arguments if a.kwarg_only} - names
    if missing and not any(p.kind == p.VAR_KEYWORD for p in parameters):
        raise LoweringError(f"{function.__name__} does not take {sorted(missing)} of '{target._schema}'")


def collect(modules: Iterable[ModuleType]) -> dict[Any, Lowering]:
    """The table of the lowerings that the modules declare, as attributes or in a tuple named `LOWERINGS`."""
    table: dict[Any, Lowering] = {}
    for module in modules:
        declared = [value for value in vars(module).values() if isinstance(value, Lowering)]
        for each in (*declared, *getattr(module, "LOWERINGS", ())):
            for target in each.targets:
                if table.get(target, each) is not each:
                    raise LoweringError(f"{target} is lowered twice: {table[target].name}, and {each.name} in {module}")
                table[target] = each
    return table


def registered(table: Mapping[Any, Lowering]) -> dict[Any, Lowering]:
    """The table with ops in place of their names; without those of packages that nothing has imported yet."""
    known: dict[int, Lowering] = {}
    ops = dict(table)  # a copy does not compute the hash of each op again
    for target in [each for each in table if isinstance(each, str)]:
        entry = ops.pop(target)
        if (op := _op_of_name(target)) is not None:
            _check_once(op, entry.function)
            ops[op] = known.setdefault(id(entry), _with_ops(entry))
    return ops


@cache  # of the table's own entries, which stay
def _check_once(op: OpOverload, function: Callable[..., Any]) -> None:
    check_signature(op, function)


def _with_ops(entry: Lowering) -> Lowering:
    named = (_op_of_name(target) if isinstance(target, str) else target for target in entry.targets)
    return replace(entry, targets=tuple(op for op in named if op is not None))


def _op_of_name(name: str) -> OpOverload | None:
    namespace, packet, overload = name.split(".")
    found = getattr(getattr(torch.ops, namespace), packet, None)
    return getattr(found, overload, None) if found is not None else None


def extend(table: Mapping[Any, Lowering], extra: Mapping[Any, Callable[..., Any]]) -> dict[Any, Lowering]:
    """The table by ops, with a user's own lowerings on top: plain functions, or `Lowering`s, by target."""
    own = {}
    for target, function in extra.items():
        check_signature(target, function.function if isinstance(function, Lowering) else function)
        own[target] = function if isinstance(function, Lowering) else Lowering((target,), function)
    return {**registered(table), **own}
