"""Communication of the ranks of one export: a star of messages around rank 0, with time limits and failure records.

Messages go through a gloo group of their own, so that neither the backend nor the order of the model's collectives
matters. A rank that gives up writes the reason to the store of the process group, where the others look when they hear
no more.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from fxport.diagnostics.messages import error_text

LEADER = 0
"""The rank that captures, writes and speaks."""

PATIENCE = timedelta(hours=2)
"""Time that a rank waits for rank 0's next message, which may be capturing; its death is noticed at once."""

CHUNK = 16 * 1024 * 1024
"""Bytes of a weight on the way at a time."""

GRACE = timedelta(seconds=2)
"""Time that a rank without messages waits for the reason to be written to the store."""

_numbers = itertools.count()


class RankLost(Exception):
    """A rank did not come, has died, is too slow, or has failed. `rank` is its number, `detail` says what is known."""

    def __init__(self, rank: int, detail: str) -> None:
        super().__init__(rank, detail)
        self.rank = rank
        self.detail = detail

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.detail}"


@dataclass
class Ranks:
    """The ranks of one export. `timeout` is how long one is waited for that is expected to answer."""

    rank: int
    size: int
    timeout: timedelta
    store: Any
    board: str
    group: Any = None
    lost: RankLost | None = field(default=None)

    @property
    def leads(self) -> bool:
        """True if this is rank 0."""
        return self.rank == LEADER

    @property
    def others(self) -> Sequence[int]:
        """All ranks but 0."""
        return range(1, self.size)

    # Messages ----------------------------------------------------------------------------------------------------

    def tell(self, rank: int, message: Any) -> None:
        """Sends an object that can be pickled."""
        with self._noticing(rank):
            self._put(rank, message, self.timeout)

    def _put(self, rank: int, message: Any, timeout: timedelta) -> None:
        body = torch.frombuffer(bytearray(pickle.dumps(message)), dtype=torch.uint8)
        self._done(dist.isend(torch.tensor([body.numel()]), rank, self.group), timeout)
        self._done(dist.isend(body, rank, self.group), timeout)

    def hear(self, rank: int, patience: timedelta | None = None) -> Any:
        """Receives what `tell` has sent. `patience` is for the first word. Raises RankLost, also when told of one."""
        size = torch.zeros(1, dtype=torch.int64)
        with self._noticing(rank):
            self._done(dist.irecv(size, rank, self.group), patience)
            body = torch.empty(int(size), dtype=torch.uint8)
            self._done(dist.irecv(body, rank, self.group))
        message = pickle.loads(body.numpy().tobytes())
        if isinstance(message, RankLost):
            raise self._stop(message)
        return message

    def send(self, rank: int, tensor: torch.Tensor, dtype: torch.dtype) -> None:
        """Sends the values of a tensor as `dtype`, in parts, each taken from its device by itself."""
        for part in parts_of(tensor, dtype.itemsize):
            with self._noticing(rank):
                self._done(dist.isend(_bytes_of(part.to("cpu", dtype).contiguous()), rank, self.group))

    def receive(self, rank: int, into: torch.Tensor) -> None:
        """Receives what `send` sends of a tensor of this shape and dtype."""
        for part in parts_of(into, into.element_size()):
            whole = part if part.is_contiguous() else torch.empty(part.shape, dtype=part.dtype)
            with self._noticing(rank):
                self._done(dist.irecv(_bytes_of(whole), rank, self.group))
            if whole is not part:
                part.copy_(whole)

    def _done(self, work: Any, patience: timedelta | None = None) -> None:
        """Waits for a message on its way: a torch.distributed.Work, which has no type of its own where it is made."""
        work.wait(patience or self.timeout)

    # Failures ----------------------------------------------------------------------------------------------------

    def give_up(self, rank: int, detail: str) -> RankLost:
        """Writes down for all ranks that `rank` is why this one stops; returns it as an exception."""
        with suppress(RuntimeError):  # the store may have died with its process, which the others notice, too
            self.store.set(f"{self.board}/failure", pickle.dumps((rank, detail)))
        return self._stop(RankLost(rank, detail))

    def _stop(self, lost: RankLost) -> RankLost:
        """Ends all talk; rank 0 tells the others why, of which each may wait for its word."""
        self.lost = lost
        for rank in self.others if self.leads and self.group is not None else ():
            if rank != lost.rank:
                with suppress(RuntimeError):  # a limit of time that has passed closes all connections at once
                    self._put(rank, lost, GRACE)
        self.close()
        return lost

    @contextmanager
    def _noticing(self, rank: int) -> Iterator[None]:
        """A failing message becomes RankLost, for the reason on the board if there is one."""
        try:
            yield
        except RuntimeError as error:
            found = failure_on_board(self.store, self.board, GRACE)
            if found is not None:
                raise self._stop(RankLost(*found)) from error
            raise self.give_up(rank, _plain(error, self.timeout)) from error

    def close(self) -> None:
        """Ends the group; afterwards nothing can be sent."""
        if self.group is not None:
            group, self.group = self.group, None
            with suppress(RuntimeError, ValueError):  # it may be broken, or gone with the default group
                dist.destroy_process_group(group)


def join(timeout: timedelta) -> Ranks:
    """Waits for all ranks of the process group. Raises RankLost naming the first that has not come in time."""
    rank, size = dist.get_rank(), dist.get_world_size()
    store = default_store()
    number = next(_numbers)
    while _was_missed(store, number, rank):
        number = next(_numbers)
    board = _board(number)
    ranks = Ranks(rank, size, timeout, store, board)
    try:
        store.set(f"{board}/begun", b"")
        store.set(f"{board}/{rank}", b"here")
        if (found := failure_on_board(store, board)) is not None:
            raise RankLost(*found)
        missing = _missing(store, board, range(size), timeout)
        if missing:
            raise ranks.give_up(missing[0], f"did not come within {timeout.total_seconds():.0f} s")
        ranks.group = dist.new_group(backend="gloo", timeout=timeout)
    except RuntimeError as error:
        found = failure_on_board(store, board, GRACE)
        raise RankLost(*(found or (LEADER, _plain(error, timeout)))) from error
    return ranks


def _board(number: int) -> str:
    """Return the key prefix in the store under which the ranks write about their export of this number."""
    return f"fxport/{number}"


def _was_missed(store: Any, number: int, rank: int) -> bool:
    """Return True if the others gave up an export because this rank did not come, and are at a later one.

    A rank that has left one out, by an exception of its own, then comes to the next with all others.
    """
    found = failure_on_board(store, _board(number))
    if found is None or found[0] != rank:
        return False
    try:
        store.wait([f"{_board(number + 1)}/begun"], GRACE)
    except RuntimeError:  # nobody has begun another: this is the one, and this rank is late
        return False
    return True


def default_store() -> Any:
    """The store of the default process group. Its own type says that values are text; they are bytes."""
    return _get_default_store()


def _missing(store: Any, board: str, ranks: Iterable[int], timeout: timedelta) -> list[int]:
    try:
        store.wait([f"{board}/{rank}" for rank in ranks], timeout)
    except RuntimeError:
        return [rank for rank in ranks if not store.check([f"{board}/{rank}"])]
    return []


def failure_on_board(store: Any, board: str, patience: timedelta | None = None) -> tuple[int, str] | None:
    """Return the rank that failed and the reason that it wrote before it stopped; None if there is nothing."""
    key = f"{board}/failure"
    try:
        if patience is not None:
            store.wait([key], patience)
        return pickle.loads(store.get(key)) if store.check([key]) else None
    except RuntimeError:  # nothing came in time, or the store has died
        return None


def parts_of(tensor: torch.Tensor, itemsize: int) -> Iterator[torch.Tensor]:
    """A tensor in slices along its first axis, of at most `CHUNK` bytes where its rows are no longer than that."""
    if tensor.dim() == 0:
        yield tensor
        return
    row = max(1, tensor[:1].numel() * itemsize)
    yield from tensor.split(max(1, CHUNK // row))


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as bytes, whatever the dtype, as every backend sends them."""
    return tensor.reshape(-1).view(torch.uint8)


def _plain(error: BaseException, timeout: timedelta) -> str:
    """A backend's error in our words."""
    text = str(error).lower()
    if "timed out" in text or "timeout" in text:
        return f"did not answer within {timeout.total_seconds():.0f} s"
    if any(words in text for words in ("closed by peer", "connection reset", "broken pipe", "connection refused")):
        return "has ended its connection"
    return error_text(error)[:200]
