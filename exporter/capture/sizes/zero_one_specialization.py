"""Sizes that are 0 or 1 in the example: which of them cannot be dynamic."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from fxport.exporter.capture.sizes.shapes import Request

SYMBOL = re.compile(r"\bs\d+\b")
"""A size, as PyTorch names it in what it raises."""


def is_small(request: Request) -> bool:
    """Return whether PyTorch would take the size for a constant, since the example has none or one."""
    return request.size is not None and request.size < 2


def to_blame(error: Exception, env: ShapeEnv | None, requests: Sequence[Request]) -> list[Request]:
    """Return the small sizes that an error is about, for instance one that is expanded, and so has to be 1."""
    if env is None:
        return []
    told = set(SYMBOL.findall(str(error)))
    sources = {str(name) for name, symbol in env.source_to_var.items() if str(symbol) in told}
    return [request for request in requests if is_small(request) and request.source in sources]
