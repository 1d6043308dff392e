"""The functions of a code object, among all objects of Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType


def maker_of(code: CodeType) -> CodeType | None:
    """Return the code of the outermost function in which a function is made; None where that is no more."""
    outer = code.co_qualname.partition(".<locals>")[0]

    def made(each: object) -> bool:
        return (
            type(each) is FunctionType and each.__qualname__ == outer and each.__code__.co_filename == code.co_filename
        )

    found = _also_frozen(lambda: [each for each in gc.get_objects() if made(each)])
    return next((each.__code__ for each in found if code in within(each.__code__)), None)


def within(code: CodeType) -> Iterator[CodeType]:
    """Yield the code and that of all functions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from within(each)


def functions_of(code: CodeType) -> list[FunctionType]:
    """Return the functions that run a code object."""
    return _also_frozen(
        lambda: [each for each in gc.get_referrers(code) if isinstance(each, FunctionType) and each.__code__ is code]
    )


def _also_frozen(find: Callable[[], list[FunctionType]]) -> list[FunctionType]:
    """Return what is found among all objects, or else among those of `gc.freeze`, which Python passes over, too."""
    found = find()
    if not found and gc.get_freeze_count():
        gc.unfreeze()
        found = find()
    return found
