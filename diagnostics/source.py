"""Places: a stack trace → file and line at once; column, end and snippet only when somebody looks."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, TracebackType

from fxport.diagnostics.calls import (
    cut,
    scope_of,
    span_of_call,
    span_of_choice,
    span_of_statement,
    span_of_test,
    utf16_column,
    utf16_length,
)
from fxport.diagnostics.model import Frame, Place
from fxport.diagnostics.own import own_folders

# Line 2 of a frame is the source as it was at capture; carets of Python 3.11's and later traces are not matched by it.
_FRAME = re.compile(
    r'^ *File "(?P<path>.+)", line (?P<line>\d+), in (?P<function>[^\n]+)\n?(?: +(?P<text>[^\n]*))?', re.M
)
_TORCH_PACKAGES = ("torch", "torchgen", "functorch")
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_NOTEBOOK = ("<ipython-input", "<stdin>")
_BINARY = re.compile(r"[\x00-\x08\x0e-\x1f]")  # what no source text holds, and each ONNX file begins with
LONGEST_FILE = 100_000
USER, LIBRARY, HIDDEN = "user", "library", "hidden"
Span = tuple[int | None, int | None, int | None, int | None]  # as code.co_positions has it


def place_of_trace(
    stack_trace: str | None,
    *,
    module: str | None = None,
    node: str | None = None,
    captured: str | None = None,
    call: str | None = None,
) -> Place | None:
    """The place of an FX node: the innermost frame of the user's, else of a library, else None.

    `stack_trace` is `node.meta.get("stack_trace")`, outermost frame first. `call` names the operator,
    "aten.gelu.default", to find its columns on the line later.
    """
    frames, texts = _frames_of_trace(stack_trace or "")
    return _place(frames, texts, module=module, node=node, captured=captured, call=call)


def place_of_exception(exc: BaseException) -> Place | None:
    """The place that an exception speaks of: the user's stack that torch attached or printed, else its traceback's.

    Its columns are those of the expression that was running, where the traceback has them.
    """
    spans: dict[tuple[str, int], Span] = {}
    fallback: Place | None = None
    for error in _chain(exc):
        for frame, span in _running(error.__traceback__):
            spans.setdefault((frame.path, frame.line), span)
    for error in _chain(exc):
        for frames, texts in _stacks_of(error):
            place = _place(frames, texts)
            if place is not None and kind_of(place.path) == USER:
                return marked(place, spans.get((place.path, place.line)))
            fallback = fallback or place
    return fallback and marked(fallback, spans.get((fallback.path, fallback.line)))


def place_of_stack(entries: Iterable[tuple[FrameType, int]]) -> Place | None:
    """The place of a running stack, innermost frame first as `traceback.walk_stack` gives it, with its columns."""
    # No frame is kept: this function's own may be among them, and in the cycle all variables of its callers would stay
    seen = [(Frame(f.f_code.co_filename, line, f.f_code.co_name), f.f_code, f.f_lasti) for f, line in entries]
    place = _place(tuple(frame for frame, _, _ in seen), ("",) * len(seen))
    if place is None:
        return None
    running = next((code, at) for frame, code, at in seen if frame.path == place.path)
    return marked(place, _span(*running))


def marked(place: Place, span: Span | None) -> Place:
    """The place with the columns of a span of code; unchanged where they are not known or the file is gone."""
    text = line_at(place.path, place.line)
    line, end_line, first, last = span or (None, None, None, None)
    if text is None or first is None or last is None or line != place.line:  # an expression may have begun above
        return place
    columns = (utf16_column(text, first), utf16_column(text, last))
    whole = "".join(lines_of(place.path))
    if end_line != line:  # a jump has the place of the whole statement
        columns = span_of_test(whole, place.line) or (columns[0], utf16_length(text.rstrip()))
    else:  # or of the whole expression
        columns = span_of_choice(whole, place.line, columns) or columns
    return replace(place, column=columns[0] + 1, end_column=columns[1] + 1, snippet=place.snippet or text.strip())


def resolve(place: Place) -> Place:
    """The same place with columns and snippet, as far as its file can be read and is still what was captured."""
    if place.column is not None:
        return place
    text = line_at(place.path, place.line)
    if not (text and text.strip()) or (place.snippet is not None and text.strip() != place.snippet.strip()):
        return place
    whole = "".join(lines_of(place.path))
    called = span_of_call(whole, place.line, place.call) if place.call else None
    start, end = called or span_of_statement(whole, place.line) or _stripped(text)
    return replace(place, column=start + 1, end_column=end + 1, snippet=place.snippet or text.strip())


def scope_at(place: Place) -> str:
    """The class and function that a place is in: "Model.forward"; "" where its file does not say."""
    return scope_of("".join(lines_of(place.path)), place.line)


def marked_text(place: Place) -> str:
    """Return the text that a place marks: its columns of the line, else the line; "" where its file cannot be read."""
    line = line_at(place.path, place.line)
    if line is None:
        return place.snippet or ""
    return (cut(line, place.column, place.end_column) if place.column is not None else None) or line.strip()


def lines_of(path: str) -> Sequence[str]:
    """The lines of a source file with their ends; none if it is gone, not text, or too long to be written by hand."""
    try:
        lines = linecache.getlines(path)
    except (OSError, ValueError, MemoryError):  # ValueError: a null character in the path
        return ()
    return () if len(lines) > LONGEST_FILE or _BINARY.search("".join(lines[:1])) else lines


def line_at(path: str, line: int) -> str | None:
    """One line without its end; None if there is no such line."""
    lines = lines_of(path)
    return lines[line - 1].rstrip("\r\n") if 0 < line <= len(lines) else None


def within_library(path: str) -> str:
    """transformers/models/bert/modeling_bert.py, of a file in site-packages; another path as it is."""
    return _LIBRARY.split(path)[-1]


@cache  # a process imports more files than a bounded one would hold, and asks about all of them in turn
def kind_of(path: str) -> str:
    """Return the kind of a file's owner: the user, a library, or hidden (torch's, Python's, this project's own)."""
    if path.startswith("<"):
        return USER if path.startswith(_NOTEBOOK) else HIDDEN
    if path.startswith(_hidden_folders()):
        return HIDDEN
    if _LIBRARY.search(path):
        return LIBRARY
    return HIDDEN if path.startswith(_python_folders()) else USER


@lru_cache(maxsize=4096)
def _frames_of_trace(stack_trace: str) -> tuple[tuple[Frame, ...], tuple[str, ...]]:
    """Frames and their source lines, innermost first."""
    found = [
        (Frame(match["path"], int(match["line"]), match["function"].strip()), (match["text"] or "").strip())
        for match in _FRAME.finditer(stack_trace)
    ]
    found.reverse()
    return tuple(frame for frame, _ in found), tuple(text for _, text in found)


def _place(
    frames: Sequence[Frame],
    texts: Sequence[str],
    *,
    module: str | None = None,
    node: str | None = None,
    captured: str | None = None,
    call: str | None = None,
) -> Place | None:
    shown = [(frame, text, kind_of(frame.path)) for frame, text in zip(frames, texts, strict=True)]
    shown = [entry for entry in shown if entry[2] != HIDDEN]
    chosen = next((entry for entry in shown if entry[2] == USER), next(iter(shown), None))
    if chosen is None:
        return None
    frame, text, _ = chosen
    stack = tuple(frame for frame, _, _ in shown)
    return Place(
        frame.path,
        frame.line,
        snippet=text or None,
        module=module or None,
        node=node,
        captured=captured,
        stack=stack,
        call=call,
    )


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception and what it was raised from, the outermost first."""
    seen: set[int] = set()
    error: BaseException | None = exc
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _running(walked: TracebackType | None) -> Iterator[tuple[Frame, Span]]:
    """The frames of a traceback, the innermost first, each with the span of the expression that was running."""
    held: list[TracebackType] = []
    while walked is not None:
        held.append(walked)
        walked = walked.tb_next
    for entry in reversed(held):
        code = entry.tb_frame.f_code
        if kind_of(code.co_filename) != HIDDEN:
            yield Frame(code.co_filename, entry.tb_lineno, code.co_name), _span(code, entry.tb_lasti)


def _span(code: CodeType, instruction: int) -> Span:
    """First and last line, first and last column, of the expression that an instruction was compiled from."""
    return next(islice(code.co_positions(), instruction // 2, None), (None, None, None, None))


def _stacks_of(error: BaseException) -> Iterator[tuple[tuple[Frame, ...], tuple[str, ...]]]:
    """Stacks that belong to an exception, the most telling first, each innermost first."""
    real_stack = getattr(error, "real_stack", None)  # torch._dynamo.exc.TorchDynamoException: the user's own frames
    if isinstance(real_stack, traceback.StackSummary):
        yield _frames_of_summary(real_stack)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - __str__ belongs to the user and may raise anything
        text = ""
    if 'File "' in text:  # "User Stack (most recent call last)", "from user code"
        yield _frames_of_trace(text)
    walked = traceback.walk_tb(error.__traceback__)
    yield _frames_of_summary(traceback.StackSummary.extract(walked, lookup_lines=False))


def _frames_of_summary(summary: Iterable[traceback.FrameSummary]) -> tuple[tuple[Frame, ...], tuple[str, ...]]:
    frames = tuple(Frame(entry.filename, entry.lineno or 1, entry.name) for entry in summary)[::-1]
    return frames, ("",) * len(frames)


def _stripped(text: str) -> tuple[int, int]:
    """Start and end of the line's code in UTF-16 units, 0-based."""
    start = utf16_length(text[: len(text) - len(text.lstrip())])
    return start, start + utf16_length(text.strip())


@lru_cache(maxsize=1)
def _hidden_folders() -> tuple[str, ...]:
    folders = [*own_folders()]
    for package in _TORCH_PACKAGES:
        spec = find_spec(package)  # of a top-level name: finds, does not import
        if spec is not None and spec.origin is not None:
            folders.append(Path(spec.origin).parent)
    return tuple(f"{folder}{sep}" for folder in folders for sep in ("/", "\\"))


@lru_cache(maxsize=1)
def _python_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(f"{paths[name]}/" for name in ("stdlib", "platstdlib"))
