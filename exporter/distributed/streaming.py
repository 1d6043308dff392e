"""Weights on their way to rank 0, one at a time: rank 0 asks for one by its number, who holds a part of it sends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from fxport.diagnostics import Finding
from fxport.exporter.distributed.eager import Eager, Forward
from fxport.exporter.distributed.holdings import Box, Holding
from fxport.exporter.distributed.ranks import LEADER, PATIENCE, Ranks


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rank 0 asks for the part of a weight that a rank holds, by the weight's number among the sorted names."""

    number: int


@dataclass(frozen=True, slots=True)
class End:
    """Rank 0 wants no more weights.

    `findings` are those that it reported since the start. `stopped` is the headline where they ended the export,
    `failure` what else it raised.
    """

    findings: Sequence[Finding] = ()
    stopped: str | None = None
    failure: BaseException | None = None


Covers = Mapping[str, Sequence[tuple[int, Box]]]
"""Weight → the ranks that send, each with its box; together they are the whole."""


def cover(boxes: Sequence[Box | None], view: Sequence[int]) -> list[tuple[int, Box]] | None:
    """Ranks whose boxes make up a tensor of the sizes `view`, without overlap; None where there are no such ranks.

    `boxes` are by rank. The lowest rank speaks for all that hold the same box.
    """
    chosen: list[tuple[int, Box]] = []
    for rank, box in enumerate(boxes):
        if box is None or any(box == other for _, other in chosen):
            continue
        if any(box.meets(other) for _, other in chosen):
            return None
        chosen.append((rank, box))
    return chosen if sum(box.count for _, box in chosen) == torch.Size(view).numel() else None


@dataclass(frozen=True)
class Stream:
    """The weights that the ranks hold together, by name; `covers` is known to rank 0 alone."""

    ranks: Ranks
    holdings: Mapping[str, Holding]
    covers: Covers
    eager: Eager

    @property
    def names(self) -> list[str]:
        """In the order of their numbers."""
        return sorted(self.holdings)

    def gather(self, name: str) -> torch.Tensor:
        """Rank 0: the whole weight, in the precision in which forward sees it. Raises RankLost."""
        holding = self.holdings[name]
        senders = self.covers[name]
        if [rank for rank, _ in senders] == [LEADER]:
            return holding.read().to("cpu", holding.dtype).reshape(holding.shape)
        whole = torch.empty(holding.view, dtype=holding.dtype)
        for rank, box in senders:
            if rank == LEADER:
                box.of(whole).copy_(holding.read())
            else:
                self.ranks.tell(rank, Wanted(self.names.index(name)))
                self.ranks.receive(rank, box.of(whole))
        return whole.reshape(holding.shape)

    def serve(self) -> End:
        """The other ranks: does what rank 0 asks for until it wants no more. Raises RankLost."""
        while True:
            message = self.ranks.hear(LEADER, PATIENCE)
            if isinstance(message, End):
                return message
            if isinstance(message, Forward):
                self.eager.take_part(message)
                continue
            holding = self.holdings[self.names[message.number]]
            self.ranks.send(LEADER, holding.read(), holding.dtype)

    def sources(self) -> dict[str, Gathered]:
        """Rank 0: where the sharded weights come from, by all their names."""
        return {name: Gathered(self, name) for name in self.holdings}


@dataclass(frozen=True, slots=True)
class Gathered:
    """A `WeightSource`: a weight that the ranks hold together."""

    stream: Stream
    name: str

    def read(self) -> torch.Tensor:
        """The whole weight, put together; called on rank 0 while the others serve. Raises RankLost."""
        return self.stream.gather(self.name)
