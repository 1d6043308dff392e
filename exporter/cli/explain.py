"""`fxport explain ID`: the page of a rule, without torch."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fxport.diagnostics.rule_pages import page
from fxport.diagnostics.rules import RULES
from fxport.exporter.sources.usage import UsageError, did_you_mean


def command(
    rule: Annotated[str, typer.Argument(metavar="ID", help="A rule's id or name: FXP3001 or NoOnnxLowering.")],
) -> None:
    """Explain a rule: what it means, why, an example, what to do."""
    by_word = {word.lower(): entry for entry in RULES.values() for word in (entry.id, entry.name)}
    found = by_word.get(rule.lower())
    if found is None:
        known = [word for entry in RULES.values() for word in (entry.id, entry.name)]
        advice = did_you_mean(rule, known) or "`fxport rules` lists them."
        raise UsageError(f"There is no rule '{rule}'. {advice}")
    show(page(found))


def show(markdown: str) -> None:
    """Rendered on a terminal, as it stands in a pipe."""
    if not sys.stdout.isatty():
        print(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))
