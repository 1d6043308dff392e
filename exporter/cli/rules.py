"""`fxport rules`: the table of rules, without torch."""

from __future__ import annotations

from fxport.diagnostics.rules import RULES


def command() -> None:
    """List all rules: id, default level, name, message."""
    width = max(len(rule.name) for rule in RULES.values())
    for rule in RULES.values():
        first_sentence = rule.message.split(". ")[0].rstrip(".")
        print(f"{rule.id}  {rule.level.value:<7}  {rule.name:<{width}}  {first_sentence}.")
