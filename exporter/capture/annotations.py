"""Notes on nodes that say what they were made for, under keys of `node.meta`."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch.fx.traceback import annotate

from fxport.fx_passes.graph import PART

SORTED = "fxport_sorted"
"""Key of the nodes that compute the order of a list by floats."""

CHOSEN = "fxport_chosen"
"""Key of a condition that an index of the data makes: the index of its first branch."""

REAL = "fxport_real"
"""Key of a power whose base is not below zero where its arm is taken."""

ANNOTATED = (PART, SORTED, CHOSEN, REAL)
"""Keys that a node has: of a part of a training step too."""


def noted(key: str, value: object) -> AbstractContextManager[object]:
    """Note a value on the nodes that are made meanwhile; None takes back what a note around this one says."""
    return annotate({key: value})
