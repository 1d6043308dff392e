"""The user's whole stack on every node: PyTorch by itself keeps only the frames that are called `forward`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from traceback import StackSummary
from unittest import mock

from torch.fx.proxy import TracerBase

from diagnostics.source import HIDDEN, kind_of


@contextmanager
def helpers_kept() -> Iterator[None]:
    """Meanwhile a node that is made in a function which forward calls has the line in that function."""
    kept = TracerBase._filter_traceback_frames

    def filtered(self: TracerBase, summary: StackSummary) -> StackSummary:
        if not self._record_forward_stack_traces_only:
            return kept(self, summary)
        inside = dropwhile(lambda frame: frame.name != "forward", summary)
        return StackSummary.from_list([frame for frame in inside if kind_of(frame.filename) != HIDDEN])

    with mock.patch.object(TracerBase, "_filter_traceback_frames", filtered):
        yield
