"""Holders that move on as they are read: iterators, generators and files, with how far they are."""

from __future__ import annotations

import copy
import gc
import io
import itertools
import operator
import warnings
from collections.abc import Mapping
from types import GeneratorType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from fxport.exporter.capture.holders import MOST_BYTES, Contents, Kind


def _read_generator(owner: GeneratorType[Any, Any, Any]) -> Contents:
    frame = owner.gi_frame
    if frame is None:  # it has ended
        return (), []
    return (None, *frame.f_locals), [frame.f_lasti, *frame.f_locals.values()]


def _read_cycle(owner: Any) -> Contents:
    """Read how many items are left before it begins anew: of a copy, as the iterator itself tells nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        _, (items,), _ = copy.copy(owner).__reduce__()
    return None, [operator.length_hint(items)]


def _read_iterator(owner: Any) -> Contents:
    """Read how many items are left, where it tells, and what it goes through, which may be iterators in turn."""
    held = ((each,) if type(each) is not tuple else each for each in gc.get_referents(owner))
    return None, [operator.length_hint(owner, -1), *itertools.chain.from_iterable(held)]


_gone_through: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
"""Number of times a file was found amid the lines that somebody takes from it, where it does not tell how far it is."""

_astray: WeakSet[Any] = WeakSet()
"""The files of them that were put to no known place since, and tell one behind some of the lines."""


def _read_file(owner: Any) -> Contents:
    """Read how far a file is that is read from; a text that is gone through line by line tells it after a flush."""
    if owner.closed or not owner.readable() or not owner.seekable():
        return None, [None]
    at = _told(owner)
    if at is None:
        _gone_through[owner] = _gone_through.get(owner, 0) + 1
        _astray.add(owner)
        owner.flush()
        at = _told(owner)
    held = owner.getvalue() if isinstance(owner, (io.BytesIO, io.StringIO)) else None
    content = held if held is None or len(held) <= MOST_BYTES else None
    return None, [(_gone_through.get(owner, 0), at, owner not in _astray, content)]


def _told(owner: Any) -> int | None:
    try:
        return owner.tell()
    except OSError:
        return None


def _write_file(owner: Any, contents: Contents) -> None:
    if owner.closed or contents[1][0] is None:
        return
    _, at, is_exact, content = contents[1][0]
    if content is not None:
        owner.seek(0)
        owner.truncate()
        owner.write(content)
    if is_exact:
        owner.seek(at)
        _astray.discard(owner)


GENERATOR = Kind(_read_generator, None, "itself")
COUNT = Kind(lambda owner: (None, [repr(owner)]), None, "itself")
CYCLE = Kind(_read_cycle, None, "itself")
ITERATOR = Kind(_read_iterator, None, "itself")
FILE = Kind(_read_file, _write_file, "itself")

STREAMS: Mapping[type, Kind] = {
    GeneratorType: GENERATOR,
    itertools.count: COUNT,
    itertools.cycle: CYCLE,
    **dict.fromkeys((io.TextIOWrapper, io.BufferedReader, io.BufferedRandom, io.FileIO, io.BytesIO, io.StringIO), FILE),
}
"""By exact type, those that have a way of their own to tell how far they are; other iterators of C have one."""
