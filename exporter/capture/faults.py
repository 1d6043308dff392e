"""Exceptions that ended a capture, told apart by whose fault they are: the model's, or fxport's own."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextvars import ContextVar

from fxport.diagnostics import Place, Rule, rules
from fxport.diagnostics.own import own_folders
from fxport.diagnostics.source import HIDDEN, kind_of

refused: ContextVar[list[Exception]] = ContextVar("refused")
"""Refusals of the capture that runs: a `try` of the model's may hide one, so that what it ends in is no success."""


class RefusedError(Exception):
    """Refusal of code that a capture would get wrong in silence. Final: another attempt might not see it.

    Args:
        reason: Why, in a clause that begins with "it".
        rule: The rule of the finding.
        place: The line; by default the one that raised this.
        cure: What to do, if the rule's own advice is another.
        by_values: Whether an attempt that knows the values which data give may do better.
    """

    def __init__(
        self,
        reason: str,
        *,
        rule: Rule = rules.UNSUPPORTED_PYTHON_CONSTRUCT,
        place: Place | None = None,
        cure: str | None = None,
        by_values: bool = False,
    ) -> None:
        super().__init__(reason)
        self.rule, self.place, self.cure, self.by_values = rule, place, cure, by_values
        refused.get([]).append(self)


_OWN = tuple(f"{folder}{os.sep}" for folder in own_folders())

MISTAKES = (NameError, AssertionError, ImportError)
"""Exceptions of Python for a mistake in the code that runs, whatever values it is given."""

OUTSIDE = (*MISTAKES, AttributeError, KeyError, IndexError, SyntaxError)
"""Exceptions that are a mistake of ours if no code of the model called us; else its values may be at fault."""


def is_our_fault(error: BaseException) -> bool:
    """Return whether a line of fxport's own raised what only a mistake raises; it says nothing about the model."""
    paths = [os.path.abspath(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not paths or not paths[-1].startswith(_OWN):
        return False
    called_by_model = any(kind_of(path) != HIDDEN for path in paths)
    return isinstance(error, MISTAKES if called_by_model else OUTSIDE)


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it came of, the latest first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def is_about_gradients(text: str) -> bool:
    """Return whether a message, or what was read, may hang on whether gradients are recorded."""
    return any(word in text.lower() for word in ("grad", "leaf"))
