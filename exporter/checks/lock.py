"""The committed baseline `fxport.lock`: what each model was, so that a change of it is seen in review."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fxport.diagnostics import BaselineState, Finding, Log, Rule, rules
from fxport.diagnostics.amounts import allowed, size
from fxport.diagnostics.limits import LOCK, json_of, read_bounded
from fxport.diagnostics.paths import write_whole
from fxport.diagnostics.report import FailOn
from fxport.exporter.checks.facts import Facts
from fxport.exporter.checks.rows import Row, Verdict
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.differences import differing

NAME = "fxport.lock"
VERSION = 1
SHORT = 16  # hexadecimal digits of an identity
LONGEST_SHOWN = 60  # characters of a value that is not what it should be
DIGITS = 2  # significant ones of an error, which differs from machine to machine
WORSE, UNSEEN = 2.0, 0.1  # an error counts as worse by this factor, and above this part of its budget


@dataclass(frozen=True, slots=True)
class Entry:
    """Locked facts of a row.

    `weights` are bytes of weights: those of the file depend on the location of its sources, too. `error` is by sample,
    in parts of the budget; `findings` are texts by identity.
    """

    nodes: int | None = None
    weights: int | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, float] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict)


Lock = Mapping[str, Entry]

KINDS: Mapping[str, tuple[type, ...]] = {"nodes": (int,), "weights": (int,)}
"""Types of the values of an entry; others are mappings."""

ITEMS: Mapping[str, tuple[type, ...]] = {"error": (int, float)}
"""Types of the values in those mappings; others are texts."""


def read(path: Path) -> Lock:
    """The baseline by row; empty where there is none. Raises UsageError for a file that is not one."""
    if not path.exists():
        return {}
    try:
        data = json_of(read_bounded(path, LOCK), LOCK)
        if data["version"] != VERSION:
            raise ValueError(f"its version is {data['version']}")
        return {name: _entry(name, entry) for name, entry in data["models"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        text = f"'{path.name}' cannot be read: {error}; restore it, or remove it and run `fxport check --update`."
        raise UsageError(text) from error


def _entry(name: str, held: Mapping[str, Any]) -> Entry:  # Any: JSON
    """Raises ValueError for what is no entry, of a file that was edited or merged by hand."""
    for key, value in held.items():
        items = value.values() if isinstance(value, Mapping) else ()
        if not isinstance(value, KINDS.get(key, (dict,))) or not all(
            isinstance(item, ITEMS.get(key, (str,))) for item in items
        ):
            raise ValueError(f"'{key}' of '{name}' is {repr(value)[:LONGEST_SHOWN]}")
    return Entry(**held)


def write(path: Path, lock: Lock) -> None:
    """The same baseline gives the same bytes. Raises OSError."""
    entries = {name: as_json(lock[name]) for name in sorted(lock)}
    write_whole(path, json.dumps({"version": VERSION, "models": entries}, indent=1, ensure_ascii=False) + "\n")


def as_json(entry: Entry) -> dict[str, Any]:  # Any: JSON
    """Keys that say something, in the order of the class."""
    held = {name: getattr(entry, name) for name in Entry.__slots__}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in held.items() if value}


def updated(lock: Lock, rows: Sequence[Row], known: Sequence[str]) -> Lock:
    """The baseline with these rows, without those that are not `known`. A check that was not finished changes none."""
    done = {row.id: entry_of(row, lock.get(row.id)) for row in rows if row.verdict is not Verdict.NOT_CHECKED}
    return {name: entry for name, entry in {**lock, **done}.items() if name in known}


def entry_of(row: Row, before: Entry | None = None) -> Entry:
    """A row as it is kept; an error that is not worse stays as it was, so that machines do not take turns."""
    found = {each.identity[:SHORT]: text_of(each) for each in row.findings if each.baseline is not BaselineState.ABSENT}
    listed = dict(sorted(found.items(), key=lambda entry: (entry[1], entry[0])))
    facts = row.facts
    if facts is None:
        return Entry(findings=listed)
    old = before.error if before else {}
    error = {label: old[label] if is_near(now, old.get(label)) else now for label, now in errors_of(facts).items()}
    return Entry(facts.nodes, facts.weights, facts.inputs, facts.outputs, error, listed)


def text_of(finding: Finding) -> str:
    """Rule and the first sentence of the message, which holds nothing that changes from run to run."""
    return f"{finding.rule.id} {finding.message.split('. ')[0].rstrip('.')}"


def errors_of(facts: Facts) -> dict[str, float]:
    return {sample.label: float(f"{sample.ratio:.{DIGITS}g}") for sample in facts.samples}


def is_near(now: float, before: float | None) -> bool:
    return before is not None and before / WORSE <= now <= before * WORSE


def compared(row: Row, lock: Lock, fail_on: FailOn) -> Row:
    """The row with its findings as new, unchanged or gone, and with those of what has become worse."""
    before = lock.get(row.id)
    if before is None or row.verdict is Verdict.NOT_CHECKED:
        return row
    log = Log()
    if row.facts is not None and before.nodes is not None:
        for rule, facts in changes(row.facts, before, row.id):
            log.report(rule, at=row.place, **facts)
    now = [*row.findings, *log.findings]
    known = [replace(finding, baseline=state_of(finding, before)) for finding in now]
    gone = before.findings.keys() - {finding.identity[:SHORT] for finding in now}
    absent = [finding for identity in sorted(gone) for finding in absent_of(identity, before.findings[identity])]
    return replace(row, findings=[*known, *absent]).judged(fail_on)


def state_of(finding: Finding, before: Entry) -> BaselineState:
    known = finding.identity[:SHORT] in before.findings
    return BaselineState.UNCHANGED if known else BaselineState.NEW


def absent_of(identity: str, text: str) -> Iterator[Finding]:
    """A finding that is gone, as far as it was kept; none of a rule that is gone too."""
    rule_id, _, message = text.partition(" ")
    if (rule := rules.RULES.get(rule_id)) is not None:
        yield Finding(rule, rule.level, f"{message}.", identity=identity, baseline=BaselineState.ABSENT)


def changes(
    now: Facts, before: Entry, name: str
) -> Iterator[tuple[Rule, Mapping[str, Any]]]:  # Any: as `report` takes facts
    """Rules and facts of what is not as it was, or worse."""
    for kind, old, new in (("input", before.inputs, now.inputs), ("output", before.outputs, now.outputs)):
        for port, was, is_ in differing(old, new):
            yield rules.CONTRACT_CHANGED, {"name": f"{kind} {port} of {name}", "old": was, "new": is_}
    if now.nodes > (before.nodes or 0):
        yield rules.GREW_SINCE_BASELINE, {"name": f"nodes of {name}", "old": str(before.nodes), "new": str(now.nodes)}
    if before.weights is not None and now.weights > before.weights:
        told = {"old": size(before.weights), "new": size(now.weights)}
        yield rules.GREW_SINCE_BASELINE, {"name": f"weights of {name}", **told}
    failed = {sample.label for sample in now.samples if not sample.passed}  # they have findings of their own
    for label, ratio in errors_of(now).items():
        was = before.error.get(label, ratio)
        if label not in failed and ratio > UNSEEN and ratio > WORSE * was:
            told = {"old": allowed(was), "new": allowed(ratio)}
            yield rules.GREW_SINCE_BASELINE, {"name": f"error of {name}, {label}", **told}
