"""Control flow whose body reads a tensor and a view of it, such as a weight and its transpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from torch._dynamo.output_graph import AliasingInfo, SubgraphTracer

READS = "Input-to-input"
"""How PyTorch's word begins for a body that reads one storage twice."""


@contextmanager
def shared_reads_allowed() -> Iterator[None]:
    """While a model is captured. PyTorch refuses such a body, although only a write could make a difference.

    Writes, and results that share storage, it refuses as before.
    """
    found = SubgraphTracer.has_aliasing

    def has_aliasing(tracer: SubgraphTracer, **allowing: bool) -> AliasingInfo:
        info = found(tracer, **dict.fromkeys(allowing, True))  # PyTorch 2.15 can be told: allow_input_input_aliasing
        return AliasingInfo(False, "") if info.msg.startswith(READS) else info

    with mock.patch.object(SubgraphTracer, "has_aliasing", has_aliasing):
        yield
