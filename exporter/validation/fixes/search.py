"""Search for the fixes of findings that help: each is tried on a patched copy of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Applicability, Edit, Finding, Fix, Level, rules
from fxport.diagnostics.edits import EditError, applied, meet, moved
from fxport.diagnostics.paths import git_root, relative_to
from fxport.diagnostics.source import USER, kind_of
from fxport.diagnostics.source_text import source_text
from fxport.exporter.sources.definition import definition_of
from fxport.exporter.sources.policy import within
from fxport.exporter.validation.fixes.trials import Trials

if TYPE_CHECKING:
    from fxport.exporter.validation.fixes.trial import Outcome
    from fxport.exporter.validation.request import Request

MOST_TRIALS = 40
CLOSE = 1e-3  # relative; a fix computes the same in another order
CHANGES_VALUES = frozenset((rules.TRAINING_MODE_CAPTURED.id, rules.RANDOMNESS_CAPTURED.id))
"""Rules whose fixes are meant to change what the model gives."""

Texts = Mapping[str, str]
Attempt = Callable[[Texts], "Outcome"]


@dataclass(frozen=True, slots=True)
class Verified:
    """A fix that was tried: the patched source exported without the finding."""

    finding: Finding
    fix: Fix


@dataclass(frozen=True, slots=True)
class Fixed:
    """Result of a search.

    Attributes:
        texts: The patched texts by path.
        found: The fixes in them.
        error: Why the source could not be exported as it is, so that there was nothing to try; None where it could.
        failed: The fixes that were tried alone and did not help.
    """

    texts: Texts
    found: Sequence[Verified]
    error: str | None = None
    failed: Sequence[Verified] = ()

    def without_failed(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """The findings without the fixes of which it is known that they do not help."""
        failed = [(each.finding.identity, each.fix.edits) for each in self.failed]
        return [
            replace(each, fixes=tuple(fix for fix in each.fixes if (each.identity, fix.edits) not in failed))
            for each in findings
        ]


def fixed(request: Request, least: Level) -> Fixed:
    """Try the fixes of all findings of one export, from the level `least` on; no file is changed."""
    with Trials() as trials:
        return verified(request.source, least, lambda texts: trials.run(request, texts))


def verified(source: str, least: Level, attempt: Attempt) -> Fixed:
    """Search for the fixes that help among all findings from the level `least` on.

    Args:
        source: SOURCE as it was typed.
        least: The lowest level of findings whose fixes are tried.
        attempt: Exports what SOURCE names with patched texts; without any, as it is.
    """
    texts: dict[str, str] = {}
    found, failed = list[Verified](), list[Verified]()
    now, tried = attempt(texts), set[tuple[str, str]]()
    error = now.error
    while len(tried) < MOST_TRIALS:
        for bundle in _bundles([within(each, source, texts) for each in now.findings], least, _root(source), tried):
            try:
                patch = _patched(bundle, texts)
            except EditError:
                continue
            then = attempt(patch)
            if _helps(bundle, now, then):
                found += [
                    Verified(each.finding, replace(each.fix, applicability=Applicability.MACHINE)) for each in bundle
                ]
                texts, now = patch, then
                break
            failed += bundle if len(bundle) == 1 else ()
        else:
            break
    return Fixed(texts, found, error, failed)


def _bundles(
    findings: Sequence[Finding], least: Level, root: Path, tried: set[tuple[str, str]]
) -> Iterator[Sequence[Verified]]:
    """Yield the fixes to try next: the first fix of every finding at once, then each fix alone, none twice."""
    usable = [
        [Verified(finding, fix) for fix in finding.fixes if _is_usable(fix, root)]
        for finding in sorted(findings, key=lambda each: -each.level.rank)
        if finding.is_open and finding.level.rank >= least.rank
    ]
    together: list[Verified] = []
    for each in usable:
        if each and not any(meet(each[0].fix.edits, other.fix.edits) for other in together):
            together.append(each[0])
    alone = [[each] for held in usable for each in held]
    for bundle in ([together] if len(together) > 1 else []) + alone:
        key = ("+".join(each.finding.identity for each in bundle), "+".join(str(each.fix.edits) for each in bundle))
        if key not in tried:
            tried.add(key)
            yield bundle


def _is_usable(fix: Fix, root: Path) -> bool:
    """Return True if a fix has edits, no placeholders and no decision to make, and stays in the user's source."""
    inside = all(kind_of(edit.path) == USER and relative_to(Path(edit.path).resolve(), root) for edit in fix.edits)
    return bool(fix.edits) and fix.applicability in (Applicability.MACHINE, Applicability.MAYBE) and inside


def _root(source: str) -> Path:
    """The repository of SOURCE's file, or the folder of the file."""
    definition = definition_of(source)
    folder = Path(definition.path).resolve().parent if definition else Path.cwd()
    return git_root(str(folder)) or folder


def _patched(bundle: Sequence[Verified], texts: Texts) -> dict[str, str]:
    """The texts with the edits of a bundle. Raises EditError for a file that cannot be read or cannot hold them."""
    edits = [edit for each in bundle for edit in each.fix.edits]
    patch = dict(texts)
    for path in dict.fromkeys(edit.path for edit in edits):
        before = texts.get(path) or _read(path)
        patch[path] = applied(before, [edit for edit in edits if edit.path == path])
        source_text(path).bytes_of(patch[path])
    return patch


def _read(path: str) -> str:
    return source_text(path).text


def _helps(bundle: Sequence[Verified], before: Outcome, after: Outcome) -> bool:
    """Return True if the findings are gone, no new ones appeared, and the model gives the values that it gave."""
    if after.error is not None or before.error is not None:
        return False
    edits = [edit for each in bundle for edit in each.fix.edits]
    changed = {(edit.path, line) for edit in edits for line in _lines(edit.path, edit.line, edits)}
    places = {(each.rule.id, each.place.path, each.place.line) for each in after.findings if each.place}
    for each in bundle:
        at = each.finding.place
        if at is None or any(
            (each.finding.rule.id, at.path, line) in places for line in _lines(at.path, at.line, edits)
        ):
            return False
    worst_before = [each for each in before.findings if each.is_open and each.level is Level.ERROR]
    for each in after.findings:
        if each.is_open and each.level is Level.ERROR:
            known = any(each.rule == other.rule for other in worst_before)
            touched = each.place is not None and (each.place.path, each.place.line) in changed
            if touched or (not known and not worst_before):
                return False
    if all(each.finding.rule.id in CHANGES_VALUES for each in bundle):
        return True
    pairs = zip(before.values, after.values, strict=True)
    return all(one is None or _same(one, other) for one, other in pairs)  # what raised before may do what it likes


def _lines(path: str, line: int, edits: Sequence[Edit]) -> range:
    """The lines, after the edits, of what was on a line before."""
    first, last = moved(line, [edit for edit in edits if edit.path == path])
    return range(first, last + 1)


def _same(one: Sequence[object], other: Sequence[object] | None) -> bool:
    import numpy as np

    if other is None or len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            if type(a) is not type(b):
                return False
        elif a.shape != b.shape or not np.allclose(a, b, rtol=CLOSE, atol=CLOSE, equal_nan=True):
            return False
    return True
