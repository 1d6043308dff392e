"""Comments by which a user lives with a finding: `# fxport: ignore[FXP4001] the cast is meant`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from diagnostics import rules, source
from diagnostics.calls import utf16_length
from diagnostics.log import Revision, identity_of
from diagnostics.model import Finding, Place, SuppressedBy, Suppression

_COMMENT = re.compile(r"#\s*fxport:\s*ignore\[(?P<ids>[\w\s,]+)\]\s*(?P<reason>[^#]*)")


@dataclass(frozen=True, slots=True)
class Comment:
    """One rule ignored on one line of one file; the column is 1-based in UTF-16 units."""

    path: str
    line: int
    column: int
    end_column: int
    rule: str
    reason: str


def by_comments(files: Iterable[str] = ()) -> Revision:
    """A revision for `Log.revise`: suppresses findings by comments on their lines, reports comments that match none.

    A finding with several places is suppressed when all of them are. `files` are read for comments besides those in
    which something was found: the file of the model, say.
    """
    more = tuple(files)

    def suppress(findings: Sequence[Finding]) -> Sequence[Finding]:
        paths = dict.fromkeys([*(place.path for finding in findings for place in _places(finding)), *more])
        comments = [comment for path in paths for comment in comments_in(path)]
        table = {(comment.path, comment.line, comment.rule): comment for comment in comments}
        used: set[Comment] = set()
        seen = [_suppressed(finding, table, used) for finding in findings]
        return [*seen, *(_unused(comment) for comment in comments if comment not in used)]

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
            match = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
            if match is None:
                continue
            start = utf16_length(token.line[: token.start[1]]) + 1
            end = start + utf16_length(token.string.rstrip())
            for rule in (name.strip() for name in match["ids"].split(",")):
                yield Comment(path, token.start[0], start, end, rule, match["reason"].strip())
    except (tokenize.TokenError, SyntaxError):
        return  # the comments before the fault were found


def _suppressed(finding: Finding, table: dict[tuple[str, int, str], Comment], used: set[Comment]) -> Finding:
    places = _places(finding)
    comments = [table.get((place.path, place.line, finding.rule.id)) for place in places]
    found = [comment for comment in comments if comment is not None]
    used.update(found)
    if not found or len(found) < len(comments):
        return finding
    return replace(finding, suppression=Suppression(SuppressedBy.SOURCE, found[0].reason))


def _unused(comment: Comment) -> Finding:
    rule = rules.UNUSED_SUPPRESSION
    facts = {"name": comment.rule}
    place = Place(comment.path, comment.line, comment.column, comment.end_column)
    identity = identity_of(rule, place, facts)
    return Finding(rule, rule.level, rule.message.format_map(facts), place, facts, identity=identity)


def _places(finding: Finding) -> Sequence[Place]:
    return (finding.place, *finding.related) if finding.place else finding.related
