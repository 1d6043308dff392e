"""Findings that repeat one cause as one finding: forty layers in training mode are one missing `.eval()`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from fxport.diagnostics import rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.log import IDENTIFYING_FACTS, MAX_RELATED
from fxport.diagnostics.model import Finding, Level

MANY = 3
"""As many findings of one rule at one line stay apart."""
SHOWN = 3
STATISTICS = (".running_mean", ".running_var", ".num_batches_tracked")
"""Buffers that batch normalization updates in training mode."""


def grouped(findings: Sequence[Finding]) -> Sequence[Finding]:
    """A revision for `Log.revise`: repeated findings as one, which says how many there are and names some.

    Warnings and notes of one rule at one line of Python are joined where there are more than three; errors never are. A
    model in training mode is one finding: its random dropout and the statistics that it updates follow from the mode.
    """
    findings = _training_mode(findings)
    groups: dict[Hashable, list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(_key(finding, number), []).append(finding)
    return [one for group in groups.values() for one in _joined(group)]


def _key(finding: Finding, number: int) -> Hashable:
    place = finding.place
    if place is None or finding.level is Level.ERROR or not place.path.endswith(".py"):
        return number
    known = (finding.suppression, finding.baseline)
    return (finding.rule.id, finding.level, place.path, place.line, known)


def _joined(group: Sequence[Finding]) -> Iterator[Finding]:
    if len(group) <= MANY:
        yield from group
        return
    names = list(dict.fromkeys(name for finding in group[1:] if (name := _name(finding))))
    told = ", ".join(f"'{name}'" for name in names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
    more = f" And {len(group) - 1} more like it{': ' + told if told else ''}."
    yield _one(group, f"{group[0].message}{more}")


def _one(group: Sequence[Finding], message: str) -> Finding:
    first = group[0]
    places = [place for finding in group for place in (finding.place, *finding.related) if place is not None]
    related = tuple(dict.fromkeys(place for place in places if place != first.place))[:MAX_RELATED]
    return replace(first, message=message, related=related, count=sum(finding.count for finding in group))


def _name(finding: Finding) -> str:
    return next((str(finding.facts[fact]) for fact in IDENTIFYING_FACTS[::-1] if fact in finding.facts), "")


def _training_mode(findings: Sequence[Finding]) -> Sequence[Finding]:
    """All findings of training mode as one, without what follows from it."""
    mode = [finding for finding in findings if finding.rule is rules.TRAINING_MODE_CAPTURED and finding.is_open]
    if not mode:
        return findings
    random = [each for each in findings if each.rule is rules.RANDOMNESS_CAPTURED and "dropout" in _name(each)]
    changed = [each for each in findings if each.rule is rules.STATE_MUTATED and _name(each).endswith(STATISTICS)]
    told = sorted({_name(finding) for finding in mode})
    message = mode[0].message
    if len(mode) > 1:
        ops = ", ".join(f"'{name}'" for name in told)
        message += f" That is so for {sum(each.count for each in mode)} calls of {ops}."
    if random:
        message += " What dropout gives is random."
    if changed:
        message += f" Statistics that it updates became {plural(len(changed), 'output')}."
    one = _one(mode, message)
    gone = {id(finding) for finding in (*mode[1:], *random, *changed)}
    return [one if finding is mode[0] else finding for finding in findings if id(finding) not in gone]
