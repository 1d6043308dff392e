"""`if len(boxes) == 0` where only a run knows how many there are: taken as some, where both ways cannot be kept.

A size is a whole number, and whether it is 0 is most of what a model asks about one that depends on data. Where the
ways of such an `if` do not fit into a cond, the graph has the one for sizes from 1 on, and the user is told. So it is
with `if not padding.any()` and `if mask.all()`, after which a mask of no effect often becomes None.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import sympy
import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv
from torch.overrides import TorchFunctionMode
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy
from torch.utils.weak import WeakTensorKeyDictionary

from diagnostics import Place
from diagnostics.source import HIDDEN, kind_of, place_of_stack

_ROOM = str(Path(__file__).parent)
_START = str(Path(__file__).with_name("inference.py"))
_TORCH = Path(torch.__file__).parent
_ASKING = (str(_TORCH / "__init__.py"), str(_TORCH / "fx" / "experimental"))
"""Where PyTorch turns a symbolic number into a Python one; who called from there wanted to know."""
_KEPT = str(Path(__file__).parent / "rewriting" / "branch_steps.py")
"""Who asks there has tried to keep both ways."""

TRUTHS: Mapping[Any, bool] = {torch.any: True, Tensor.any: True, torch.all: False, Tensor.all: False}
"""What tells whether a mask has some effect, and its answer where it has."""

CONTRARY = frozenset({torch.logical_not, Tensor.logical_not, torch.bitwise_not, Tensor.bitwise_not, Tensor.__invert__})


@dataclass
class Presumed:
    """What was answered, and what was left open."""

    answers: dict[Place | None, BaseException] = field(default_factory=dict)
    """Where a question was answered, and what kept both of its ways from the graph."""
    open: bool = False
    """Whether there were questions that could be answered so, had that been allowed."""
    refusal: Exception | None = None
    """What ended the capture without these answers."""


@contextmanager
def sizes_presumed(presumed: Presumed, everywhere: bool) -> Iterator[None]:
    """Sizes that depend on data are at least 1 for whoever asks in Python: `everywhere`, or where no cond can stand."""
    evaluate = ShapeEnv.evaluate_expr

    def evaluated(self: ShapeEnv, orig_expr: sympy.Basic, *args: Any, **options: Any) -> Any:
        try:
            return evaluate(self, orig_expr, *args, **options)
        except GuardOnDataDependentSymNode as question:
            answer = _of_some(self, orig_expr) if _asks_in_python() else None
            if answer is None:
                raise
            if not everywhere and not _was_kept():
                presumed.open = True
                raise
            presumed.answers.setdefault(_running(), question.__context__ or presumed.refusal or question)
            return answer

    with mock.patch.object(ShapeEnv, "evaluate_expr", evaluated), _Truths(presumed):
        yield


class _Truths(TorchFunctionMode):
    """While it is active, masks have some effect for an `if` whose ways do not fit into a cond."""

    def __init__(self, presumed: Presumed) -> None:
        super().__init__()
        self.presumed = presumed
        self.known: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        barred = sys.exc_info()[1]
        if func is Tensor.__bool__ and args[0] in self.known and barred is not None and _was_kept():
            self.presumed.answers.setdefault(_running(), barred)
            return self.known[args[0]]
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not result.dim():
            if func in TRUTHS:
                self.known[result] = TRUTHS[func]
            elif func in CONTRARY and args[0] in self.known:
                self.known[result] = not self.known[args[0]]
        return result


def _of_some(env: ShapeEnv, question: Any) -> sympy.Basic | None:
    """The answer if every size that depends on data is at least 1; None where that does not tell."""
    symbols: Any = question.free_symbols
    if not isinstance(question, sympy.Rel) or not symbols & env.size_like:
        return None
    ranges = {symbol: env.var_to_range.get(symbol, ValueRanges.unknown_int()) for symbol in symbols}
    for symbol in symbols & env.size_like:
        ranges[symbol] &= ValueRanges(1, sympy.oo if ranges[symbol].upper == sympy.oo else ranges[symbol].upper)
    found = bound_sympy(question, ranges)  # type: ignore[arg-type]  # symbols are expressions
    return found.lower if found.is_singleton() else None  # type: ignore[return-value]


def _frames() -> Iterator[Any]:
    """From the frame that asked outwards, as far as the model goes."""
    for frame, _ in traceback.walk_stack(sys._getframe(2)):
        if frame.f_code.co_filename == _START:
            return
        yield frame


def _asks_in_python() -> bool:
    """Whether the line that asks is one of the model, or of a library that it uses, and not one of PyTorch."""
    for frame in _frames():
        path = frame.f_code.co_filename
        if not path.startswith((_ROOM, *_ASKING)) and frame.f_code.co_name != "__torch_function__":
            return kind_of(path) != HIDDEN
    return False


def _was_kept() -> bool:
    """Whether it is a branch that asks which cannot be a cond; others of this room only stand between."""
    paths = (frame.f_code.co_filename for frame in _frames() if frame.f_code.co_name != "__torch_function__")
    asking = (path for path in paths if path == _KEPT or not path.startswith((_ROOM, *_ASKING)))
    return next(asking, None) == _KEPT


def _running() -> Place | None:
    walked = ((frame, frame.f_lineno) for frame in _frames())
    return place_of_stack(entry for entry in walked if not entry[0].f_code.co_filename.startswith(_ROOM))
