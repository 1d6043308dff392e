"""Log: everything that was said in one run. The only mutable object of this package."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType

from fxport.diagnostics import source
from fxport.diagnostics.fixes import suggested
from fxport.diagnostics.messages import plain, written
from fxport.diagnostics.model import Finding, Fix, Level, Part, Place, Rule, Step, Stop
from fxport.diagnostics.paths import project_path

MAX_RELATED = 999
"""Places of one finding besides its first: GitHub takes 1,000 locations of a result."""
IDENTIFYING_FACTS = ("op", "dim", "output", "input", "name")
_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")

Trail = Callable[[Place], tuple[Step, ...]]
"""The way of the value that a place is about, from the user's line on; no steps where it is not known."""
Progress = Callable[[str, int, int], None]
Revision = Callable[[Sequence[Finding]], Sequence[Finding]]


@dataclass(slots=True)
class _Record:
    """A finding that may still be seen again."""

    finding: Finding
    related: list[Place]
    count: int = 1
    built: Finding | None = None

    def seen_again(self, again: Finding) -> None:
        self.count += 1
        self.built = None
        at = again.place
        if again.level.rank > self.finding.level.rank:  # the graver one says why it is
            self.finding = replace(again, place=self.finding.place)
        known = [self.finding.place, *self.related]
        if at is None or len(self.related) >= MAX_RELATED or any(place and _same(place, at) for place in known):
            return
        self.related.append(at)

    def build(self, trail: Trail | None) -> Finding:
        if self.built is None:
            place = source.resolve(self.finding.place) if self.finding.place else None
            steps = self.finding.steps or (trail(place) if trail and place else ())
            if place and not place.stack:  # a place that was read from a model has none, the graph's node has
                place = replace(place, stack=next((s.place.stack for s in steps if s.place.stack), ()))
            related = tuple(source.resolve(place) for place in self.related)
            found = replace(self.finding, place=place, related=related, count=self.count, steps=steps)
            self.built = replace(found, fixes=suggested(found))
        return self.built


class Log:
    """Collects findings and times stages; `parts` are what an export that succeeded made of the modules.

    `levels` overrides the level of rules by id; None means that the rule is not wanted (see `policy.levels`).
    `clock` returns seconds and is injected where the times must be the same in every run.
    `progress` is called as (stage, done, total); a total of 0 means that it is not known.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        progress: Progress | None = None,
        levels: Mapping[str, Level | None] = MappingProxyType({}),
    ) -> None:
        self.progress = progress
        self.stages: list[tuple[str, float]] = []
        self.parts: Sequence[Part] = ()
        self._clock = clock
        self._levels = levels
        self._records: dict[str, _Record] = {}
        self._errors: list[str] = []
        self._stage = ""
        self._revisions: list[Revision] = []
        self._trail: Trail | None = None

    @property
    def findings(self) -> Sequence[Finding]:
        """All findings in the order of their first report, with columns, snippets and fixes, after all revisions."""
        findings: Sequence[Finding] = [record.build(self._trail) for record in self._records.values()]
        for revision in self._revisions:
            findings = revision(findings)
        return tuple(findings)

    @property
    def worst(self) -> Level | None:
        """The worst level among the findings that are neither suppressed nor gone since the baseline."""
        return max((finding.level for finding in self.findings if finding.is_open), key=_rank, default=None)

    def report(
        self,
        rule: Rule,
        at: Place | None = None,
        *,
        level: Level | None = None,
        related: Sequence[Place] = (),
        fixes: Sequence[Fix] = (),
        steps: Sequence[Step] = (),
        **facts: object,
    ) -> Finding:
        """Say `rule` about the place `at`. Never raises; a repeated finding is merged and counted.

        No file is read, unless only the text of the line tells two causes apart. The finding that is returned has no
        columns yet; those in `findings` have.
        """
        held = {name: plain(value) for name, value in facts.items()}
        wanted = self._levels.get(rule.id, level or rule.level)
        shown = wanted or Level.NOTE
        message = written(rule.message, held)
        identity = identity_of(rule, at, held)
        if wanted is Level.ERROR and (level or rule.level) is Level.ERROR:  # a promoted warning fails no stage
            self._errors.append(message)
        finding = Finding(
            rule=rule,
            level=shown,
            message=message,
            place=at,
            facts=held,
            related=tuple(related),
            fixes=tuple(fixes),
            identity=identity,
            steps=tuple(steps),
        )
        record = self._records.get(identity)
        if record is not None:
            record.seen_again(finding)
            return record.finding
        record = _Record(finding, related=list(related)[:MAX_RELATED])
        if wanted is not None:
            self._records[identity] = record
        return record.finding

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; at its end, raise `Stop` if an error was reported inside it. Other exceptions fly untouched."""
        outer, self._stage = self._stage, name
        errors, start = len(self._errors), self._clock()
        self.advance(0, 0)
        try:
            yield
        finally:
            self.stages.append((name, self._clock() - start))
            self._stage = outer
        if len(self._errors) > errors:
            raise Stop(self, name, tuple(dict.fromkeys(self._errors[errors:])))

    def advance(self, done: int, total: int) -> None:
        """Tell the terminal how far the present stage is."""
        if self.progress is not None:
            self.progress(self._stage, done, total)

    def follow(self, trail: Trail) -> None:
        """Findings have the steps that `trail` gives for their places, which it is asked for when findings are read."""
        self._trail = trail
        for record in self._records.values():
            record.built = None

    def trial(self) -> Log:
        """A log with the same settings for an attempt, whose findings count only if it is adopted."""
        return Log(clock=self._clock, progress=self.progress, levels=self._levels)

    def adopt(self, trial: Log) -> None:
        """Take over what a log for an attempt has: findings that are not known here, times, parts and trails."""
        for identity, record in trial._records.items():
            self._records.setdefault(identity, record)
        self._errors += trial._errors
        self.stages += trial.stages
        self.parts = trial.parts or self.parts
        self._revisions += trial._revisions
        if trial._trail is not None:
            self.follow(trial._trail)

    def revise(self, revision: Revision) -> None:
        """Pass all findings through `revision` from now on: suppressions and baselines are such functions."""
        self._revisions.append(revision)


def identity_of(rule: Rule, at: Place | None, facts: Mapping[str, object]) -> str:
    """sha256 of rule, owner and the identifying facts, in hex.

    The owner is the module path with indices as `*`, so that equal layers are one finding; without a module it is the
    file. Where no fact names the cause, the function and the marked text do: two branches are two causes. Neither
    lines nor metrics take part: the identity survives edits elsewhere in the file.
    """
    if at is None:
        owner = ""
    elif at.module:
        owner = _INDEX.sub("*", at.module)
    else:
        owner = project_path(at.path)
    named = [f"{name}={facts[name]}" for name in IDENTIFYING_FACTS if name in facts]
    if at is not None and not named:
        named = [source.scope_at(at), source.marked_text(at)]
    return sha256("|".join((rule.id, owner, *named)).encode("utf-8", "backslashreplace")).hexdigest()


def _same(one: Place, other: Place) -> bool:
    return (one.line, one.module, one.path) == (other.line, other.module, other.path)


def _rank(level: Level) -> int:
    return level.rank
