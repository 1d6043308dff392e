"""The page of each rule, `pages/FXP3001-no-onnx-lowering.md`: what it means, why, an example, and what to do."""

from __future__ import annotations

from importlib import resources

from fxport.diagnostics.model import Rule

SITE = "https://fxport.readthedocs.io/rules"


def page(rule: Rule) -> str:
    """The rule's page, in Markdown."""
    return resources.files("fxport.diagnostics").joinpath("pages", page_name(rule)).read_text(encoding="utf-8")


def page_name(rule: Rule) -> str:
    """FXP3001-no-onnx-lowering.md"""
    kebab = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in rule.name)
    return f"{rule.id}{kebab}.md"


def section(rule: Rule, heading: str) -> str:
    """The first paragraph under a heading of the rule's page, as one line; "" if there is none."""
    _, _, rest = page(rule).partition(f"## {heading}\n")
    return " ".join(rest.strip().split("\n\n")[0].split())


def hint(rule: Rule) -> str:
    """Return the page's advice on how to solve the problem, in one line."""
    return section(rule, "What to do")


def help_uri(rule: Rule) -> str:
    """Return the URL of the published page."""
    return f"{SITE}/{rule.id}"
