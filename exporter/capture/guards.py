"""What the path through a model was decided on: every condition on sizes, with the user's line that asked for it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import sympy
import torch
from torch._guards import TracingContext
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

from diagnostics import Place
from diagnostics.source import HIDDEN, USER, kind_of, place_of_stack, place_of_trace
from fx_passes.sizes import NamedSize, rebuilt, unfolded

_ROOM = str(Path(__file__).parent)
_START = str(Path(__file__).with_name("inference.py"))
"""Where captures begin; other frames of this room stand between the model and PyTorch."""
_TORCH = Path(torch.__file__).parent
_ASKING = (
    str(_TORCH / "__init__.py"),
    str(_TORCH / "fx" / "experimental"),
    __file__,
    str(Path(__file__).with_name("presence.py")),
    str(Path(__file__).with_name("rewriting")),
    str(Path(__file__).parent / "sizes" / "progressions.py"),
)
"""Where PyTorch turns a symbolic number into a Python one, by way of this room, which also stands in for what Python
does with ranges and loops; who called from there asked.
"""

_ABOUT_LAYOUT = (
    (str(_TORCH / "_prims_common" / "__init__.py"), "check_contiguous_sizes_strides"),
    (str(_TORCH / "_prims_common" / "__init__.py"), "_is_non_overlapping_and_dense_or_false"),
    (str(_TORCH / "fx" / "passes" / "shape_prop.py"), "_extract_tensor_metadata"),
    (str(_TORCH / "_subclasses" / "fake_tensor.py"), "_get_output_tensor_from_cache_entry"),
    (str(_TORCH / "_meta_registrations.py"), "meta_copy_"),
)
"""Who asks only how a tensor lies in memory: whether it has to be copied, and never what is computed."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes that the capture relies on, with what PyTorch then knew about them, and its line."""

    condition: sympy.Basic
    env: ShapeEnv
    place: Place | None
    by_user: bool
    """The user's Python code asked, or a library's; else an op did, to choose among ways to the same result."""
    counted: bool
    """It comes from making a Python number of a size, as `range(n)` and `int(n)` do."""
    about_layout: bool
    """It says how a tensor lies in memory: the captured graph may hold a copy more or less, and no other result."""

    @property
    def now(self) -> Any:
        """The condition in terms of the sizes that are still free at the end of the capture."""
        if not self.condition.atoms(NamedSize):
            return self.env.replace(self.condition)  # type: ignore[arg-type]  # a condition is an expression
        condition = unfolded(self.condition)
        free = {symbol: self.env.replace(symbol) for symbol in condition.free_symbols}
        return rebuilt(condition, free, evaluate=False)

    @property
    def sources(self) -> frozenset[str]:
        """The sizes it is about: "L['x'].size()[0]"."""
        symbols = unfolded(self.condition).free_symbols
        return frozenset(str(name) for name, symbol in self.env.source_to_var.items() if symbol in symbols)


@contextmanager
def recorded_guards() -> Iterator[list[Guard]]:
    """Collects meanwhile every condition on sizes whose answer the captured graph relies on.

    That is every guard of PyTorch's, and also what the user's code asked and PyTorch knew the answer to without a
    guard, because it takes no dynamic size to be 0 or 1. PyTorch's own trace of guards costs many times the capture; a
    guard is rare, so its stack may be looked at.
    """
    found: list[Guard] = []
    log_guard, evaluate = ShapeEnv._log_guard, ShapeEnv.evaluate_expr

    def logged(self: ShapeEnv, prefix: str, guard: Any, forcing_spec: bool) -> None:
        found.append(Guard(guard, self, _running(), *_question(), _about_layout()))
        log_guard(self, prefix, guard, forcing_spec)

    def evaluated(self: ShapeEnv, orig_expr: sympy.Basic, *args: Any, **options: Any) -> Any:
        answer = evaluate(self, orig_expr, *args, **options)
        by_user, counted = _question()
        if orig_expr.free_symbols and by_user:
            found.append(Guard(_answered(orig_expr, answer), self, _running(), True, counted, False))
        return answer

    with (
        mock.patch.object(ShapeEnv, "_log_guard", logged),
        mock.patch.object(ShapeEnv, "evaluate_expr", evaluated),
    ):
        yield found


class RefusalHidden(Exception):
    """A `try` in `forward` caught PyTorch's refusal to tell a value; its cause is that."""


@contextmanager
def refusals_kept() -> Iterator[None]:
    """Raises at the end what a `try` of the user's has hidden: that a value was asked for which is not known.

    The graph would have only the way that the `except` goes on.
    """
    refused: list[GuardOnDataDependentSymNode] = []
    evaluate = ShapeEnv.evaluate_expr

    def evaluated(self: ShapeEnv, orig_expr: sympy.Basic, *args: Any, **options: Any) -> Any:
        try:
            return evaluate(self, orig_expr, *args, **options)
        except GuardOnDataDependentSymNode as error:
            if _asked_by_user():
                refused.append(error)
            raise

    with mock.patch.object(ShapeEnv, "evaluate_expr", evaluated):
        yield
    if refused:
        raise RefusalHidden(str(refused[0])) from refused[0]


def _asked_by_user() -> bool:
    """Whether the user's own line made PyTorch ask, perhaps by the truth of a tensor."""
    frame: Any = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename.startswith(_ASKING) or frame.f_code.co_name == "__torch_function__"
    ):
        frame = frame.f_back
    return frame is not None and kind_of(frame.f_code.co_filename) == USER


def _answered(question: Any, answer: Any) -> sympy.Basic:
    """The condition under which a question about sizes has this answer."""
    if answer is sympy.true or answer is True:
        return question
    if answer is sympy.false or answer is False:
        return sympy.Not(question)
    return sympy.Eq(question, answer)


def _about_layout() -> bool:
    frame, _ = _asker()
    return frame is not None and (frame.f_code.co_filename, frame.f_code.co_name) in _ABOUT_LAYOUT


def _asker() -> tuple[Any, bool]:
    """The frame that turned a symbolic number into a Python one, and whether it made a number of it."""
    frame: Any = sys._getframe(3)
    counted = False
    while frame is not None and frame.f_code.co_filename.startswith(_ASKING):
        counted |= frame.f_code.co_name in ("guard_int", "guard_float")
        frame = frame.f_back
    return frame, counted


def _question() -> tuple[bool, bool]:
    """Who turned a symbolic number into a Python one, and how: `Guard.by_user` and `Guard.counted`."""
    frame, counted = _asker()
    if frame is None:
        return False, counted
    if TracingContext.try_get() is not None and (stack := TracingContext.extract_stack()):  # Dynamo reads the bytecode
        return kind_of(stack[-1].filename) != HIDDEN, counted
    return kind_of(frame.f_code.co_filename) != HIDDEN, counted


def _running() -> Place | None:
    """The line that is running, from forward on: who called export is no cause."""
    if TracingContext.try_get() is not None and (stack := TracingContext.extract_stack()):
        return place_of_trace("\n".join(f'File "{f.filename}", line {f.lineno}, in {f.name}' for f in stack))
    walked = takewhile(lambda entry: entry[0].f_code.co_filename != _START, traceback.walk_stack(sys._getframe(2)))
    return place_of_stack(entry for entry in walked if not entry[0].f_code.co_filename.startswith(_ROOM))
