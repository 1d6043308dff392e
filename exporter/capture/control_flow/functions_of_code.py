"""The functions of a code object, among all objects of Python."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FunctionType, ModuleType


def maker_of(code: CodeType) -> CodeType | None:
    """Return the code of the outermost function in which a function is made; None where that is no more."""
    outer = code.co_qualname.partition(".<locals>")[0]
    named = _named(code.co_filename, outer)
    if named is not None and code in within(named.__code__):
        return named.__code__

    def made(each: object) -> bool:
        return (
            type(each) is FunctionType and each.__qualname__ == outer and each.__code__.co_filename == code.co_filename
        )

    found = _also_frozen(lambda: [each for each in gc.get_objects() if made(each)])
    return next((each.__code__ for each in found if code in within(each.__code__)), None)


def _named(path: str, name: str) -> FunctionType | None:
    """Return the function that a module of this file has under a qualified name: no search through all objects."""
    for module in [*sys.modules.values()]:
        if not isinstance(module, ModuleType):
            continue
        held: object = object.__getattribute__(module, "__dict__")  # loads no module that waits for its first use
        if not isinstance(held, dict) or held.get("__file__") != path:
            continue
        for part in name.split("."):
            own = vars(held) if isinstance(held, type) else held if isinstance(held, dict) else {}
            held = own.get(part)
        if type(held) is FunctionType:
            return held
    return None


def within(code: CodeType) -> Iterator[CodeType]:
    """Yield the code and that of all functions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from within(each)


def functions_of(codes: Collection[CodeType]) -> dict[int, list[FunctionType]]:
    """Return the functions that run each of these code objects, by the identity of the code: one search for all."""
    found: dict[int, list[FunctionType]] = {id(code): [] for code in codes}
    referrers = gc.get_referrers(*codes) if codes else []
    for each in referrers:
        if isinstance(each, FunctionType) and id(each.__code__) in found:
            found[id(each.__code__)].append(each)
    if not all(found.values()) and gc.get_freeze_count():
        gc.unfreeze()
        return functions_of(codes)
    return found


def _also_frozen(find: Callable[[], list[FunctionType]]) -> list[FunctionType]:
    """Return what is found among all objects, or else among those of `gc.freeze`, which Python passes over, too."""
    found = find()
    if not found and gc.get_freeze_count():
        gc.unfreeze()
        found = find()
    return found
