"""The format for pull requests and job summaries: GitHub Flavored Markdown in which the user's text is only text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fxport.diagnostics import rule_pages, rules
from fxport.diagnostics.escape import markdown, markdown_code, terminal, visible
from fxport.diagnostics.frame import code_frame
from fxport.diagnostics.log import Log
from fxport.diagnostics.model import Finding, Level
from fxport.diagnostics.paths import root_for, uri_of
from fxport.diagnostics.text import advice_of, advised, code_of, module_text, place_text, summary_of

SIGNS = {Level.ERROR: "❌", Level.WARNING: "⚠️", Level.NOTE: "💡"}


def render(log: Log, *, root: Path | None = None) -> str:
    """The open findings, the worst first; links are relative to `root`, else to the repository's root."""
    findings = sorted((finding for finding in log.findings if finding.is_open), key=lambda finding: -finding.level.rank)
    base = root or root_for([finding.place.path for finding in findings if finding.place])
    blocks = [f"## fxport: {summary_of(log) or 'no findings'}"]
    blocks += ["\n".join(_block(finding, base)) for finding in findings]
    return terminal("\n\n".join(blocks) + "\n")  # also where it is printed to the log of a job


def _block(finding: Finding, root: Path) -> Iterator[str]:
    rule = finding.rule
    name = f"[{markdown(rule.id)}]({rule_pages.help_uri(rule)})" if rule.id in rules.RULES else markdown(rule.id)
    yield f"### {SIGNS[finding.level]} {name} {markdown(finding.message)}"
    yield ""
    if finding.place:
        uri, relative = uri_of(finding.place.path, root)
        shown = markdown_code(place_text(finding.place))
        link = f"[{shown}]({uri.replace('(', '%28').replace(')', '%29')}#L{finding.place.line})" if relative else shown
        yield f"at {link}{_owner(finding)}"
        yield ""
        yield from _fence(finding)
    elif owner := _owner(finding):
        yield owner.lstrip(", ")
        yield ""
    if advice := advice_of(finding):
        yield f"**What to do:** {markdown(advice) if advised(finding) else advice}"
    if code := code_of(finding):
        yield ""
        yield from _fenced(
            [visible(line) for line in code], "python" if (fix := advised(finding)) and fix.code else "diff"
        )


def _owner(finding: Finding) -> str:
    text = module_text(finding)
    return f", in {markdown(text)}" if text else ""


def _fence(finding: Finding) -> Iterator[str]:
    assert finding.place is not None
    lines = code_frame(finding.place)
    if not lines:
        return
    yield from _fenced([text for line in lines for text in ((line.text, line.mark) if line.mark else (line.text,))])
    yield ""


def _fenced(lines: Sequence[str], language: str = "python") -> Iterator[str]:
    """A block of code in a fence of more backticks than any of its lines begins with (CommonMark §4.5)."""
    longest = max((len(line) - len(line.lstrip("`")) for line in map(str.strip, lines)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from lines
    yield fence
