"""Comments by which a user lives with a finding: `# fxport: ignore[FXP4001] the cast is meant`.

A rule is named by its id, its name, or the beginning of ids: `ignore[FXP4]`.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from fxport.diagnostics import policy, rules, source
from fxport.diagnostics.calls import utf16_length
from fxport.diagnostics.definitions import definitions_of, foreign_lines
from fxport.diagnostics.log import Revision, identity_of
from fxport.diagnostics.model import Finding, Level, Place, SuppressedBy, Suppression

# Also behind another comment of the line, such as one for a linter.
_COMMENT = re.compile(r"(?:^|\s)#\s*fxport:\s*ignore(?:\[(?P<ids>[\w\s,]*)\])?(?!\w)\s*(?P<reason>[^#]*)")

ABSENT = "no finding of this rule is on the line"
UNNAMED = "the comment names no rule"
UNKNOWN = "no rule is called so"
FATAL = "an error that stops the export cannot be ignored"


@dataclass(frozen=True, slots=True)
class Comment:
    """One rule ignored on one line of one file; the column is 1-based in UTF-16 units."""

    path: str
    line: int
    column: int
    end_column: int
    rule: str
    reason: str


def by_comments(
    files: Iterable[str] = (),
    *,
    name: str = "",
    levels: Mapping[str, Level | None] = MappingProxyType({}),
) -> Revision:
    """A revision for `Log.revise`: suppresses findings by comments on their lines, reports comments without effect.

    A finding with several places is suppressed when all of them are; an error without which there would be no model is
    not. `files` are read for comments besides those in which something was found: the file of the model, say, whose
    top-level `name` is what runs. Definitions that took no part are left alone, and so are rules that `levels` leaves
    out (None).
    """
    more = tuple(files)

    def suppress(findings: Sequence[Finding]) -> Sequence[Finding]:
        places = [place for finding in findings for place in _places(finding)]
        comments = [each for path in dict.fromkeys([*(at.path for at in places), *more]) for each in comments_in(path)]
        used: set[Comment] = set()
        seen = [_suppressed(finding, comments, used) for finding in findings]
        here = {(finding.rule.id, at.path, at.line) for finding in seen for at in _places(finding)}
        unused = [each for each in comments if each not in used and _took_part(each, places, more, name)]
        told = [(each, reason) for each in unused if (reason := _why(each, here, levels)) is not None]
        return [*seen, *(_unused(comment, reason) for comment, reason in told)]

    return suppress


def comments_in(path: str) -> Sequence[Comment]:
    """The comments of one file; none if it cannot be read as Python."""
    return _parsed(path, "".join(source.lines_of(path)))


@lru_cache(maxsize=64)
def _parsed(path: str, text: str) -> tuple[Comment, ...]:
    if "fxport:" not in text:
        return ()
    return tuple(_tokens(path, text))


def _tokens(path: str, text: str) -> Iterator[Comment]:
    """By tokens, not by lines: a string that speaks of such a comment is none."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if match is None:
                continue
            start = utf16_length(token.line[: token.start[1]]) + 1
            end = start + utf16_length(token.string.rstrip())
            for rule in (name.strip() for name in (match["ids"] or "").split(",")):
                yield Comment(path, token.start[0], start, end, rule, match["reason"].strip())
    except (tokenize.TokenError, SyntaxError):
        return  # the comments before the fault were found


def _suppressed(finding: Finding, comments: Sequence[Comment], used: set[Comment]) -> Finding:
    places = _places(finding)
    found = [_comment_at(place, finding, comments) for place in places]
    if not places or policy.is_fatal(finding):
        return finding
    used.update(comment for comment in found if comment is not None)
    first = found[0]
    if first is None or None in found:
        return finding
    return replace(finding, suppression=Suppression(SuppressedBy.SOURCE, first.reason))


def _comment_at(place: Place, finding: Finding, comments: Sequence[Comment]) -> Comment | None:
    here = (each for each in comments if (each.path, each.line) == (place.path, place.line))
    return next((each for each in here if finding.rule.id in _ids(each.rule)), None)


@lru_cache(maxsize=256)
def _ids(name: str) -> frozenset[str]:
    """The rules that a name of a comment means; none for one that nothing is called."""
    try:
        return frozenset(policy.matching(name))
    except ValueError:
        return frozenset()


def _took_part(comment: Comment, places: Sequence[Place], more: Sequence[str], name: str) -> bool:
    """Return True if a comment's line belongs to the model: to code that `name` uses, or to a definition with a
    finding.
    """
    text = "".join(source.lines_of(comment.path))
    if comment.path in more:
        return not any(comment.line in lines for lines in foreign_lines(text, name))
    around = next((lines for lines in definitions_of(text).values() if comment.line in lines), None)
    return around is None or any(at.path == comment.path and at.line in around for at in places)


def _why(comment: Comment, here: set[tuple[str, str, int]], levels: Mapping[str, Level | None]) -> str | None:
    """Return the reason why a comment has no effect; None if its rules are not selected, so that it cannot be known."""
    ids = _ids(comment.rule)
    if not ids:
        return UNKNOWN if comment.rule else UNNAMED
    if any((each, comment.path, comment.line) in here for each in ids):
        return FATAL
    wanted = any(levels.get(each, Level.NOTE) is not None for each in ids)
    return ABSENT if wanted else None


def _unused(comment: Comment, reason: str) -> Finding:
    rule = rules.UNUSED_SUPPRESSION
    facts = {"name": comment.rule, "reason": reason}
    place = Place(comment.path, comment.line, comment.column, comment.end_column)
    identity = identity_of(rule, place, facts)
    return Finding(rule, rule.level, rule.message.format_map(facts), place, facts, identity=identity)


def _places(finding: Finding) -> Sequence[Place]:
    return (finding.place, *finding.related) if finding.place else finding.related
