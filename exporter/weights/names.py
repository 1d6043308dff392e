"""Names of a model's weights ↔ names in a checkpoint: exact, under a prefix, without what wrappers put in between."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fxport.diagnostics.errors import FxportError

WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
"""Prefixes that torch.compile, FSDP and activation checkpointing put into names, at any depth."""

PREFIXES = ("", "module.", "model.", "state_dict.", "model.module.", "model.model.")
"""Prefixes of training scripts and frameworks. Where several fit, the first of these is used."""

DEEPEST = 3
"""Parts of a name that a prefix may have."""

ENOUGH = 0.5
"""Share of the model's names that must be found under a prefix, to tell it from a likeness of some layers."""

_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")


class AmbiguousPrefix(FxportError):
    """A checkpoint that has the model's names under several prefixes."""

    def __init__(self, prefixes: Collection[str]) -> None:
        super().__init__(", ".join(f"'{prefix}'" for prefix in prefixes))


@dataclass(frozen=True, slots=True)
class Renaming:
    """Renaming from the model's name to the checkpoint's: `removed` is cut from the beginning, `added` put in its
    place.
    """

    removed: str = ""
    added: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a checkpoint, as a model asks for them."""

    renaming: Renaming
    by_plain: Mapping[str, str]
    near: dict[str, str | None] = field(default_factory=dict)
    """Nearest names that were looked for, by the starred name: once for all layers, since it takes a while."""

    def find(self, name: str) -> str | None:
        """The checkpoint's name of the model's weight `name`; None where it has none."""
        plain = without_wrappers(name)
        if not plain.startswith(self.renaming.removed):
            return self.by_plain.get(plain)
        return self.by_plain.get(self.renaming.added + plain.removeprefix(self.renaming.removed))

    def key_of(self, target: str, others: Mapping[str, Sequence[str]]) -> str | None:
        """As `find`, under any name that the model has for a weight; `others` are those of tied ones."""
        found = (self.find(name) for name in (target, *others.get(target, ())))
        return next((key for key in found if key is not None), None)

    def nearest(self, name: str) -> str | None:
        """The checkpoint's name that is most like it, or like that of another layer; same last parts come first."""
        if starred(name) not in self.near:
            self.near[starred(name)] = self._nearest(name)
        return self.near[starred(name)]

    def _nearest(self, name: str) -> str | None:
        wanted = self.renaming.added + without_wrappers(name)
        last = wanted.rpartition(".")[2]
        same = [plain for plain in self.by_plain if plain.rpartition(".")[2] == last]
        near = difflib.get_close_matches(wanted, same or list(self.by_plain), n=1, cutoff=0.5)
        return self.by_plain[near[0]] if near else None


def names_of(wanted: Collection[str], stored: Collection[str]) -> Names:
    """Matches the model's names with those of a checkpoint, under the prefix with which most of them are found.

    Raises AmbiguousPrefix where two prefixes fit as well.
    """
    by_plain = {without_wrappers(name): name for name in stored}
    plain = {without_wrappers(name) for name in wanted}
    return Names(_renaming(plain, by_plain), by_plain)


def without_wrappers(name: str) -> str:
    """`layer.weight` for `_orig_mod.layer._checkpoint_wrapped_module.weight`."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def starred(name: str) -> str:
    """`layers.*.weight` for `layers.3.weight`: one name for what is the same in every layer."""
    return _INDEX.sub("*", name)


def _renaming(wanted: Collection[str], stored: Collection[str]) -> Renaming:
    straight = sum(name in stored for name in wanted)
    if straight == len(wanted):
        return Renaming()
    tails: dict[str, list[str]] = {}
    for name in wanted:
        for head, tail in _cuts(name):
            tails.setdefault(tail, []).append(head)
    scores = Counter(
        Renaming(removed, added) for name in stored for added, tail in _cuts(name) for removed in tails.get(tail, ())
    )
    best = max(scores.values(), default=0)
    if best <= straight or best < ENOUGH * len(wanted):
        return Renaming()
    winners = [each for each, score in scores.items() if score == best]
    shortest = min(len(each.removed) for each in winners)  # to drop 'a.' from both is to drop nothing
    winners = [each for each in winners if len(each.removed) == shortest]
    usual = sorted((PREFIXES.index(each.added), each) for each in winners if each.added in PREFIXES)[:1]
    if usual:
        return usual[0][1]
    if len(winners) > 1:
        raise AmbiguousPrefix([each.added for each in winners])
    return winners[0]


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """("", "a.b.c"), ("a.", "b.c"), ("a.b.", "c")."""
    parts = name.split(".")
    for depth in range(min(DEEPEST, len(parts) - 1) + 1):
        yield "".join(f"{part}." for part in parts[:depth]), ".".join(parts[depth:])
