"""Before anything moves, the ranks compare what they hold: one that differs would leave the others waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from diagnostics import Log, rules
from exporter.capture.places import place_of_module
from exporter.distributed.holdings import Box, Holding, Sizes
from exporter.distributed.ranks import LEADER, Ranks
from exporter.distributed.skeleton import Skeleton, names_of
from exporter.distributed.streaming import cover


@dataclass(frozen=True, slots=True)
class Held:
    """What a rank says of one weight. `box` may differ from rank to rank, the rest must not."""

    shape: Sizes
    dtype: torch.dtype
    layout: str
    view: Sizes
    box: Box | None

    @property
    def kind(self) -> str:
        """What must be the same on all ranks, in words."""
        return f"{_shape(self.shape)} {str(self.dtype).removeprefix('torch.')} {self.layout}"


Manifest = Mapping[str, Held]


def manifest_of(skeleton: Skeleton) -> Manifest:
    """All weights and buffers of this rank by their names."""
    return {
        name: _of_holding(skeleton.holdings[name])
        if name in skeleton.holdings
        else Held(tuple(tensor.shape), tensor.dtype, "whole", tuple(tensor.shape), None)
        for name, tensor in names_of(skeleton.module)
    }


def _of_holding(holding: Holding) -> Held:
    return Held(holding.shape, holding.held, holding.layout, holding.view, holding.box)


def gathered(ranks: Ranks, mine: Manifest) -> list[Manifest]:
    """Rank 0: the manifests of all ranks, in their order. The others: nothing. Raises RankLost."""
    if not ranks.leads:
        ranks.tell(LEADER, mine)
        return []
    return [mine, *(ranks.hear(rank) for rank in ranks.others)]


def compare(manifests: Sequence[Manifest], skeleton: Skeleton, log: Log) -> None:
    """Reports each weight of which two ranks say different things, or which no parts make whole."""
    for name in dict.fromkeys(name for manifest in manifests for name in manifest):
        kinds = [manifest[name].kind if name in manifest else "no such weight" for manifest in manifests]
        owner = name.rpartition(".")[0]
        at = place_of_module(skeleton.module, owner) if name in manifests[LEADER] else None
        if len(set(kinds)) > 1:
            log.report(rules.RANKS_DISAGREE, at=at, name=name, detail=_by_rank(kinds))
        elif name in skeleton.holdings and _cover(manifests, name) is None:
            log.report(rules.PLACEMENT_UNSUPPORTED, at=at, name=name, layout=manifests[LEADER][name].layout)


def covers_of(manifests: Sequence[Manifest], skeleton: Skeleton) -> dict[str, list[tuple[int, Box]]]:
    """Which ranks send what of each sharded weight; `compare` has seen that there are such."""
    return {name: _cover(manifests, name) or [] for name in skeleton.holdings}


def _cover(manifests: Sequence[Manifest], name: str) -> list[tuple[int, Box]] | None:
    return cover([manifest[name].box for manifest in manifests], manifests[LEADER][name].view)


def _by_rank(kinds: Sequence[str]) -> str:
    """ "ranks 0 and 2: [4, 8] float32 whole; rank 1: [4, 9] float32 whole"."""
    told = []
    for kind in dict.fromkeys(kinds):
        ranks = [str(rank) for rank, each in enumerate(kinds) if each == kind]
        listed = ranks[0] if len(ranks) == 1 else f"{', '.join(ranks[:-1])} and {ranks[-1]}"
        told.append(f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}: {kind}")
    return "; ".join(told)


def _shape(shape: Sizes) -> str:
    return f"[{', '.join(map(str, shape))}]"
