"""Stack traces of nodes: the user's whole stack, for gradients that of what they are gradients of, and their part.

PyTorch by itself keeps only the frames that are called `forward`, nothing of what autograd runs, and annotations only
in some kinds of capture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from traceback import StackSummary
from typing import Any
from unittest import mock

import torch
from torch.fx import Node
from torch.fx.proxy import TracerBase
from torch.fx.traceback import get_current_meta

from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.fx_passes.graph import PART


@contextmanager
def helpers_kept() -> Iterator[None]:
    """Give a node that is made in a function which forward calls the line in that function.

    One that autograd makes has the line of the operation that it differentiates: autograd numbers operations, and its
    nodes have the number of theirs. Where `torch.fx.traceback.annotate` names a part, it is on the node.
    """
    kept, created = TracerBase._filter_traceback_frames, TracerBase.create_node
    operations: dict[int, StackSummary] = {}

    def filtered(self: TracerBase, summary: StackSummary) -> StackSummary:
        if not self._record_forward_stack_traces_only:
            return kept(self, summary)
        inside = dropwhile(lambda frame: frame.name != "forward", summary)
        own = StackSummary.from_list([frame for frame in inside if kind_of(frame.filename) != HIDDEN])
        differentiated = torch._C._current_autograd_node()
        if differentiated is None:
            last = torch.autograd._get_sequence_nr() - 1  # pyright: ignore[reportPrivateImportUsage]
            operations.setdefault(last, own)  # those after the first have no gradient
        elif not own:
            return operations.get(differentiated._sequence_nr(), own)
        return own

    def parted(self: TracerBase, *args: Any, **kwargs: Any) -> Node:
        node = created(self, *args, **kwargs)
        part = get_current_meta().get("custom", {}).get(PART)
        if part is not None:
            node.meta[PART] = part
        return node

    with (
        mock.patch.object(TracerBase, "_filter_traceback_frames", filtered),
        mock.patch.object(TracerBase, "create_node", parted),
    ):
        yield
