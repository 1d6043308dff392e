"""Stack traces of nodes: the user's whole stack, for gradients that of what they are gradients of, and their part.

PyTorch by itself keeps only the frames that are called `forward`, nothing of what autograd runs, and annotations only
in some kinds of capture.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import FrameSummary, StackSummary
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch.fx import Node, proxy
from torch.fx.proxy import TracerBase
from torch.fx.traceback import get_current_meta

from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.exporter.capture.annotations import ANNOTATED


@contextmanager
def helpers_kept() -> Iterator[None]:
    """Give a node that is made in a function which forward calls the line in that function.

    One that autograd makes has the line of the operation that it differentiates: autograd numbers operations, and its
    nodes have the number of theirs. What `torch.fx.traceback.annotate` notes under a key of ANNOTATED is on it.
    """
    kept, created = TracerBase._filter_traceback_frames, TracerBase.create_node
    captured = proxy.CapturedTraceback  # pyright: ignore[reportPrivateImportUsage]
    operations: dict[int, StackSummary] = {}
    outermost: list[FrameType] = []

    def filtered(self: TracerBase, running: Any) -> StackSummary:
        if not self._record_forward_stack_traces_only:
            return kept(self, StackSummary.from_list(captured.extract().summary()[:-1]))
        own = own_frames(running.frame, outermost)
        differentiated = torch._C._current_autograd_node()
        if differentiated is None:
            last = torch.autograd._get_sequence_nr() - 1  # pyright: ignore[reportPrivateImportUsage]
            operations.setdefault(last, own)  # those after the first have no gradient
        elif not own:
            return operations.get(differentiated._sequence_nr(), own)
        return own

    def annotated(self: TracerBase, *args: Any, **kwargs: Any) -> Node:
        node = created(self, *args, **kwargs)
        noted = get_current_meta().get("custom", {})
        node.meta.update((key, noted[key]) for key in ANNOTATED if key in noted)
        return node

    with (
        mock.patch.object(proxy, "CapturedTraceback", _Running),
        mock.patch.object(TracerBase, "_filter_traceback_frames", filtered),
        mock.patch.object(TracerBase, "create_node", annotated),
    ):
        try:
            yield
        finally:
            outermost.clear()  # with what the frame holds


class _Running:
    """Stands for PyTorch's `CapturedTraceback` where a node is made: the frames are read when they are filtered.

    PyTorch describes all of the hundred and more frames of a capture, of which a node has a few.
    """

    def __init__(self, frame: FrameType) -> None:
        self.frame = frame

    @classmethod
    def extract(cls) -> _Running:
        return cls(sys._getframe(1))

    def summary(self) -> _Running:
        return self


def own_frames(frame: FrameType | None, outermost: list[FrameType] | None = None) -> StackSummary:
    """Return the frames from the outermost `forward` on that are the user's or a library's, the outermost first.

    `outermost` holds the frame of that `forward`: while it runs, those around it are the same, and are not looked at.
    """
    found: list[FrameType] = []
    own, last, outermost = 0, None, [] if outermost is None else outermost
    while frame is not None:
        code = frame.f_code
        if kind_of(code.co_filename) != HIDDEN:
            found.append(frame)
        if code.co_name == "forward":
            own, last = len(found), frame
            if frame in outermost:
                break
        frame = frame.f_back
    outermost[:] = [] if last is None else [last]
    return StackSummary.from_list([_summary(each) for each in reversed(found[:own])])


def _summary(frame: FrameType) -> FrameSummary:
    return FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, lookup_line=False)
