"""The code that makes PyTorch turn a symbolic number into a Python one, found on the stack."""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, TypeVar

import torch
from torch import _dynamo
from torch._guards import TracingContext
from torch._subclasses import functional_tensor
from torch.fx import experimental
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn import functional

from fxport import fx_passes
from fxport.diagnostics import Place
from fxport.diagnostics.source import HIDDEN, USER, kind_of, place_of_stack, place_of_trace
from fxport.exporter.capture.private import CALLING, CONVOLUTION, FORMAT, LAYOUT
from fxport.fx_passes.private import codes
from fxport.fx_passes.sizes import size_of

E = TypeVar("E", bound=BaseException)

aten = torch.ops.aten

Line = tuple[str, int]
"""A line of a file."""

WHILE = ("while ", "while(")
"""Beginnings of a line that tests whether a loop goes on."""

_HERE = Path(__file__).parent
_CAPTURE = str(_HERE.parent)
_START = str(_HERE.parent / "driver.py")
"""File in which captures begin; other frames of this package are between the model and PyTorch."""
_CONVERTING = (
    torch.__file__,
    *experimental.__path__,
    functional_tensor.__file__,  # the truth of a tensor, where writes are taken out
    *fx_passes.__path__,  # what stands in the place of parts of PyTorch there
)
"""Files in which PyTorch turns a symbolic number into a Python one; the caller of that asks."""
_ASKING = (
    *_CONVERTING,
    str(_HERE),
    str(_HERE.parent / "control_flow"),
    str(_HERE.parent / "patches" / "arithmetic.py"),
    str(_HERE.parent / "patches" / "attention.py"),
    str(_HERE.parent / "patches" / "numbers.py"),
    str(_HERE.parent / "patches" / "texts.py"),
    str(_HERE.parent / "sizes" / "progressions.py"),
)
"""The same, and the modules of this package that do what Python does with numbers, ranges and loops."""
_KEPT = str(_HERE.parent / "control_flow" / "branches.py")
"""File whose questions come from an attempt to keep both branches."""

_OF, _ATTENTION = "transformers.integrations.sdpa_attention", "sdpa_attention_forward"
"""The attention of transformers on top of `scaled_dot_product_attention`."""

_ABOUT_LAYOUT = codes(LAYOUT)
"""Functions that ask only for the memory layout of a tensor: to decide on a copy, never on values."""

_ABOUT_FORMAT = codes(FORMAT)
"""Functions that ask which axis of an image lies innermost."""

CONVOLVING = "_conv_determine_backend_memory_format"
"""Function in C++ that only asks in which format a convolution leaves its result; without it, that sets limits."""

_CONVOLVING = codes(CONVOLUTION)
"""Function that computes the shape of a convolution, and asks for its format too."""

_CALLING = codes(CALLING)
"""Functions that call an op, which may ask in C++."""

_VIEWING = frozenset({aten.reshape.default, aten.reshape_as.default, aten.flatten.using_ints})
"""Ops that ask in C++ only whether they can make a view."""


def is_about_layout() -> bool:
    """Return whether the question is how a tensor lies in memory; what sorts strides for it asks from the same file."""
    frame, _ = _asker()
    if frame is None or frame.f_code in _ABOUT_LAYOUT:
        return frame is not None
    caller = frame.f_back
    if caller is not None and caller.f_code.co_filename == frame.f_code.co_filename and caller.f_code in _ABOUT_LAYOUT:
        return True
    return _is_about_convolution(frame)


def _is_about_convolution(frame: FrameType) -> bool:
    """Return whether C++ asks in which format a convolution leaves its result."""
    code = frame.f_code
    return code in _CONVOLVING and CONVOLVING in linecache.getline(code.co_filename, frame.f_lineno)


def is_about_format() -> bool:
    """Return whether the question is which axis of an image lies innermost in memory."""
    frame, _ = _asker()
    return frame is not None and frame.f_code in _ABOUT_FORMAT


def is_about_viewing() -> bool:
    """Return whether `reshape` asks in C++, which makes a view if it can and a copy if not; the two are equal."""
    frame, _ = _asker()
    return frame is not None and frame.f_code in _CALLING and frame.f_locals.get("self") in _VIEWING


def is_about_copying() -> bool:
    """Return whether `contiguous` asks in C++, kept as an op: it gives the tensor itself or a copy, which are equal."""
    frame, _ = _asker()
    return frame is not None and frame.f_code in _CALLING and frame.f_locals.get("self") is aten.contiguous.default


def is_about_attention_alike() -> bool:
    """Return whether the attention of transformers asks for the number of queries, and attends alike for any number.

    It asks whether it shall hide what comes later. It does not where it has a mask, nor where the layer is not causal;
    and of as many keys as queries, a single query has nothing that comes later.

    If the function or its arguments were named otherwise, its question would be one like others, with a finding.
    """
    frame, _ = _asker()
    if frame is None or frame.f_code.co_name != _ATTENTION or not frame.f_globals.get("__name__", "").startswith(_OF):
        return False
    mask, query, key, causal = map(frame.f_locals.get, ("attention_mask", "query", "key", "is_causal"))
    if isinstance(mask, torch.Tensor) or not isinstance(query, torch.Tensor) or not isinstance(key, torch.Tensor):
        return isinstance(mask, torch.Tensor)
    return mask is None and (causal is False or size_of(query.shape[2]) == size_of(key.shape[2]))


def way_of_asking() -> tuple[bool, bool]:
    """Return whether Python code asks, and not an op; and whether it makes a number of a size."""
    frame, counted = _asker()
    if frame is None:
        return False, counted
    if stack := _read_by_dynamo():  # an op that Dynamo tries asks with the same stack
        return frame.f_code.co_filename.startswith(tuple(_dynamo.__path__)) and kind_of(
            stack[-1].filename
        ) != HIDDEN, counted
    return kind_of(frame.f_code.co_filename) != HIDDEN, counted


def is_users() -> bool:
    """Return whether the user's own line asks, perhaps by the truth of a tensor."""
    frame: Any = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(_ASKING) or _is_of_a_mode(frame)):
        frame = frame.f_back
    return frame is not None and kind_of(frame.f_code.co_filename) == USER


def is_pythons() -> bool:
    """Return whether a line of the model, or of a library that it uses, asks, and not one of PyTorch."""
    return line_that_asks() is not None


def line_that_asks() -> Line | None:
    """Return the line of the model, or of a library that it uses, that asks; None where PyTorch asks."""
    asking = frame_that_asks()
    return None if asking is None else (asking[0].f_code.co_filename, asking[1])


def frame_that_asks() -> tuple[FrameType, int] | None:
    """Return the frame of the model, or of a library that it uses, that asks, and its line; None where PyTorch asks."""
    for frame, line in frames_of_model():
        path = frame.f_code.co_filename
        if not path.startswith((_CAPTURE, *_CONVERTING)) and not _is_of_a_mode(frame):
            return (frame, line) if kind_of(path) != HIDDEN else None
    return None


def calling_frame(between: Collection[str]) -> FrameType:
    """Return the frame that calls a function of PyTorch or asks for an attribute, beneath function modes.

    Args:
        between: Files of code that does so for its caller.
    """
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename in between or _is_of_a_mode(frame):
        frame = frame.f_back
    return frame


def begins_with(line: Line, beginnings: tuple[str, ...]) -> bool:
    """Return whether a line begins with one of these texts, indentation aside."""
    return linecache.getline(*line).lstrip().startswith(beginnings)


def with_stack(error: E) -> E:
    """Return the error as if it had been raised through all frames that run now, as far as the model goes."""
    trace = error.__traceback__
    for frame, line in frames_of_model():
        trace = TracebackType(trace, frame, frame.f_lasti, line)
    return error.with_traceback(trace)


def is_about_shapes() -> bool:
    """Return whether an op asks beneath the trace that holds it whole, or a function of `torch.nn.functional`.

    The op asks to spare itself work when it computes a shape, the function to return early or to refuse.
    """
    frame, _ = _asker()
    if frame is None or is_pythons() or _read_by_dynamo():
        return False
    return get_proxy_mode() is None or frame.f_code.co_filename == functional.__file__


def is_a_kept_branch() -> bool:
    """Return whether a branch asks that cannot be a cond."""
    paths = (frame.f_code.co_filename for frame, _ in frames_of_model() if not _is_of_a_mode(frame))
    asking = (path for path in paths if path == _KEPT or not path.startswith((_CAPTURE, *_CONVERTING)))
    return next(asking, None) == _KEPT


def place_of_asker() -> Place | None:
    """Return the line that is running, from forward on: who called export is no cause."""
    if stack := _read_by_dynamo():
        return place_of_trace("\n".join(f'File "{f.filename}", line {f.lineno}, in {f.name}' for f in stack))
    return place_of_stack(entry for entry in frames_of_model() if not entry[0].f_code.co_filename.startswith(_CAPTURE))


def _asker() -> tuple[Any, bool]:
    """Return the frame that turned a symbolic number into a Python one, and whether it made a number of it."""
    frame: Any = sys._getframe(1)
    counted = False
    while frame is not None and frame.f_code.co_filename.startswith(_ASKING):
        counted |= frame.f_code.co_name in ("guard_int", "guard_float")
        frame = frame.f_back
    return frame, counted


def frames_of_model() -> Iterator[tuple[Any, int]]:
    """Yield the frames from here outwards, as far as the model goes, each with its line."""
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if frame.f_code.co_filename == _START:
            return
        yield frame, line


def _is_of_a_mode(frame: Any) -> bool:
    """Return whether a function mode stands here between a function and its caller."""
    return frame.f_code.co_name == "__torch_function__"


def _read_by_dynamo() -> traceback.StackSummary | None:
    """Return the stack of the code that Dynamo reads as bytecode, of which no frame is running."""
    return TracingContext.extract_stack() if TracingContext.try_get() is not None else None
