"""Lists, dicts and the like that a branch or a loop replaces by new ones, although one of its ways leaves the old ones.

On that way, Python has one object where the graph has two. If it has another name, what is written to either would show
under both: then the statement is refused, or what follows it runs in each of its ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from torch.utils import _pytree as pytree

from fxport.diagnostics.source import HIDDEN, kind_of
from fxport.exporter.capture.control_flow.merging import LoopError, containers_in
from fxport.exporter.capture.guards.askers import Line, frames_of_model, with_stack
from fxport.exporter.capture.snapshot import Snapshot


@dataclass(frozen=True)
class _Replaced:
    """Containers, old and new, with what they held behind a statement, and the error that stands for a write to one."""

    contents: Sequence[tuple[Any, tuple[list[Any], Any]]]
    error: LoopError

    def is_written(self) -> bool:
        return any(_differ(held, _contents(each)) for each, held in self.contents)


_replaced: ContextVar[list[_Replaced] | None] = ContextVar("replaced", default=None)


@contextmanager
def replaced_unwritten() -> Iterator[None]:
    """Raise LoopError at the end if a container was written to that was replaced meanwhile and has other names."""
    found: list[_Replaced] = []
    token = _replaced.set(found)
    try:
        yield
    finally:
        _replaced.reset(token)
    for each in found:
        if each.is_written():
            raise each.error


def watch_replaced(before: Any, after: Any, branches: frozenset[Line]) -> None:
    """Watch the containers of a place that a statement has given new ones, where the old ones have other names.

    Args:
        before: The value that one of the ways leaves.
        after: The value that stands for all ways.
        branches: The line of the statement, if it is a branch.
    """
    found, old = _replaced.get(), [*containers_in(before)]
    if found is None or after is before or not old or not _have_other_names(old):
        return
    reason = f"it gives a {type(before).__name__} that has other names, which show what is done to it"
    both = [(each, _contents(each)) for each in (*old, *containers_in(after))]
    found.append(_Replaced(both, with_stack(LoopError(reason, branches))))


def _have_other_names(containers: Sequence[Any]) -> bool:
    """Return whether the model reaches one of these, whose place has a new one already."""
    ids = {id(each) for each in containers}
    frames = (frame for frame, _ in frames_of_model() if kind_of(frame.f_code.co_filename) != HIDDEN)
    return any(id(each.owner) in ids for frame in frames for each, _ in Snapshot.of(dict(frame.f_locals)).held)


def _contents(container: Any) -> tuple[list[Any], Any]:
    children, context = pytree.SUPPORTED_NODES[pytree._get_node_type(container)].flatten_fn(container)
    return list(children), context


def _differ(one: tuple[list[Any], Any], other: tuple[list[Any], Any]) -> bool:
    same_children = len(one[0]) == len(other[0]) and all(a is b for a, b in zip(one[0], other[0], strict=True))
    return not same_children or one[1] != other[1]
