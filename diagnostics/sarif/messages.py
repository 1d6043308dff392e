"""The message of a result: its text, and the template and arguments that it was made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter

from fxport.diagnostics import escape
from fxport.diagnostics.messages import one_line_facts
from fxport.diagnostics.model import Finding, Rule
from fxport.diagnostics.text import advice_of

LINKS = 3
ADVICE = "What to do: "


def message_strings(rule: Rule, findings: Sequence[Finding]) -> Mapping[str, str]:
    """The templates of the messages of these findings by id, with numbers for the names of facts."""
    template, names = _numbered(rule.message)
    last = f"{ADVICE}{{{len(names)}}}."  # SARIF2001: a message ends with a period
    used = {"default": f"{template} {last}"}
    for finding in findings:
        if sentence := repetition(finding, count=f"{{{len(names) + 1}}}"):
            used[_message_id(finding)] = f"{template} {sentence} {last}"
    return dict(sorted(used.items()))


def message_parts(finding: Finding) -> tuple[str, str | None, Sequence[str]]:
    """Text with links to the related locations, message id, and arguments; no id if the template gives another text."""
    text, sentence, advice = escape.sarif(finding.message), repetition(finding), escape.sarif(advice_of(finding))
    advice = advice.removesuffix(".")
    arguments = _arguments(finding)
    shown = " ".join(part for part in (text, sentence, advice and f"{ADVICE}{advice}.") if part)
    if arguments is None or not advice:
        return shown, None, ()
    return shown, _message_id(finding), (*arguments, advice, *([str(finding.count)] if finding.count > 1 else []))


def without_additions(text: str, finding: Finding) -> str:
    """The message of a finding out of the text of its result."""
    return text.rpartition(f" {ADVICE}")[0].removesuffix(f" {repetition(finding)}") if ADVICE in text else text


def repetition(finding: Finding, count: str = "") -> str:
    """A later sentence of the message: how often, and where else. `count` is shown in the place of the number."""
    links = [f"[here]({number})" for number in range(1, 1 + _links(finding))]
    also = " and ".join((", ".join(links[:-1]), links[-1])) if len(links) > 1 else "".join(links)
    if finding.count > 1:
        times = f"It was found {count or finding.count} times"
        return f"{times}, also {also}." if also else f"{times}."
    return f"See also {also}." if also else ""


def _message_id(finding: Finding) -> str:
    """A name for each form that the sentence on other places can take."""
    if finding.count > 1:
        return f"repeated{_links(finding)}"
    return f"related{_links(finding)}" if finding.related else "default"


def _links(finding: Finding) -> int:
    return min(LINKS, len(finding.related))


def _numbered(template: str) -> tuple[str, Sequence[str]]:
    """ "'{op}' at {x:.3g}." → ("'{0}' at {1}.", ["op", "x:.3g"])"""
    text, names = "", []
    for literal, name, form, _ in Formatter().parse(template):
        text += literal
        if name is not None:
            text += f"{{{len(names)}}}"
            names.append(f"{name}:{form}" if form else name)
    return text, names


def _arguments(finding: Finding) -> tuple[str, ...] | None:
    _, names = _numbered(finding.rule.message)
    facts = one_line_facts(finding.facts)
    try:
        arguments = [f"{{{name}}}".format_map(facts) for name in names]
        same = finding.rule.message.format_map(facts) == finding.message
    except (LookupError, ValueError, TypeError, AttributeError):
        return None
    return tuple(escape.sarif(argument) for argument in arguments) if same else None
