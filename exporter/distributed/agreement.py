"""Before anything moves, the ranks compare what they hold: one that differs would leave the others waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxport.diagnostics import Log, Place, rules
from fxport.exporter.capture.places import place_of_module
from fxport.exporter.distributed.digest import digest_of
from fxport.exporter.distributed.holdings import Box, Holding, Sizes
from fxport.exporter.distributed.ranks import LEADER, Ranks
from fxport.exporter.distributed.skeleton import Skeleton, names_of
from fxport.exporter.distributed.streaming import cover

WHOLE = "whole"
"""The layout of a weight that every rank has all of."""


@dataclass(frozen=True, slots=True)
class Held:
    """Description of one weight by a rank. `box` and `digest`, that of its values, may differ; the rest must not."""

    shape: Sizes
    dtype: torch.dtype
    layout: str
    view: Sizes
    box: Box | None
    digest: int | None

    @property
    def kind(self) -> str:
        """Text of the properties that must be the same on all ranks."""
        return f"{_shape(self.shape)} {str(self.dtype).removeprefix('torch.')} {self.layout}"


Manifest = Mapping[str, Held]


def manifest_of(skeleton: Skeleton) -> Manifest:
    """All weights and buffers of this rank by their names."""
    return {
        name: _of_holding(skeleton.holdings[name])
        if name in skeleton.holdings
        else Held(tuple(tensor.shape), tensor.dtype, WHOLE, tuple(tensor.shape), None, digest_of(tensor))
        for name, tensor in names_of(skeleton.module)
    }


def _of_holding(holding: Holding) -> Held:
    digest = None if holding.box is None else digest_of(holding.read())
    return Held(holding.shape, holding.held, holding.layout, holding.view, holding.box, digest)


def gathered(ranks: Ranks, mine: Any) -> list[Any]:
    """Rank 0: what all ranks say, in their order. The others: nothing. Raises RankLost."""
    if not ranks.leads:
        ranks.tell(LEADER, mine)
        return []
    return [mine, *(ranks.hear(rank) for rank in ranks.others)]


def compare(manifests: Sequence[Manifest], skeleton: Skeleton, at: Place | None, log: Log) -> None:
    """Reports weights of which two ranks say different things, and each that no parts make whole.

    Those that differ alike, such as all by their dtype, are one finding. `at` is for a model without code of the
    user's. If there are none, copies of the same part that have other values are a warning, one for all of them.
    """
    alike: dict[tuple[Any, ...], list[str]] = {}
    known = len(log.findings)
    for name in dict.fromkeys(name for manifest in manifests for name in manifest):
        held = [manifest.get(name) for manifest in manifests]
        if len({each and each.kind for each in held}) > 1:
            alike.setdefault(_difference(held), []).append(name)
        elif name in skeleton.holdings and _cover(manifests, name) is None:
            layout = manifests[LEADER][name].layout
            log.report(rules.PLACEMENT_UNSUPPORTED, at=_place(skeleton, name, at), name=name, layout=layout)
    for first, *more in alike.values():
        kinds = [manifest[first].kind if first in manifest else "no such weight" for manifest in manifests]
        detail = by_rank(kinds) + _likewise(more)
        log.report(rules.RANKS_DISAGREE, at=_place(skeleton, first, at), name=first, detail=detail)
    if len(log.findings) == known and (copies := list(_unequal_copies(manifests))):
        first, *more = copies
        log.report(rules.REPLICAS_DIFFER, at=_place(skeleton, first, at), name=first, others=len(more))


def covers_of(manifests: Sequence[Manifest], skeleton: Skeleton) -> dict[str, list[tuple[int, Box]]]:
    """Return the (rank, box) pairs that are sent of each sharded weight; `compare` has seen that there are such."""
    return {name: _cover(manifests, name) or [] for name in skeleton.holdings}


def by_rank(words: Sequence[str]) -> str:
    """ "ranks 0 and 2: [4, 8] float32 whole; rank 1: [4, 9] float32 whole"."""
    told = []
    for kind in dict.fromkeys(words):
        ranks = [str(rank) for rank, each in enumerate(words) if each == kind]
        listed = ranks[0] if len(ranks) == 1 else f"{', '.join(ranks[:-1])} and {ranks[-1]}"
        told.append(f"{'rank' if len(ranks) == 1 else 'ranks'} {listed}: {kind}")
    return "; ".join(told)


def _unequal_copies(manifests: Sequence[Manifest]) -> Iterator[str]:
    """The weights of which two ranks hold the same part with other values."""
    for name, leading in manifests[LEADER].items():
        digests: dict[Box | None, set[int]] = {}
        for held in (manifest[name] for manifest in manifests):
            if held.digest is not None and (held.box is not None or leading.layout == WHOLE):
                digests.setdefault(held.box, set()).add(held.digest)
        if any(len(each) > 1 for each in digests.values()):
            yield name


def _difference(held: Sequence[Held | None]) -> tuple[Any, ...]:
    """In what the ranks differ, whichever weight it is: the same for all weights that differ in the same way."""
    known = next(each for each in held if each is not None)
    return tuple(each and (each.shape == known.shape, each.dtype, each.layout) for each in held)


def _cover(manifests: Sequence[Manifest], name: str) -> list[tuple[int, Box]] | None:
    return cover([manifest[name].box for manifest in manifests], manifests[LEADER][name].view)


def _place(skeleton: Skeleton, name: str, at: Place | None) -> Place | None:
    """The code of the module that has a weight, or of the innermost around it that rank 0 has; else `at`."""
    owner = name.rpartition(".")[0]
    known = {path for path, _ in skeleton.module.named_modules()}
    while owner not in known:
        owner = owner.rpartition(".")[0]
    return place_of_module(skeleton.module, owner) or at


def _likewise(more: Sequence[str]) -> str:
    return f"; likewise {len(more)} more, the last of them '{more[-1]}'" if more else ""


def _shape(shape: Sizes) -> str:
    return f"[{', '.join(map(str, shape))}]"
