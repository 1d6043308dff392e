"""Selection and levels of rules by the user: `--select`, `--ignore`, `--severity FXP5002=error`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fxport.diagnostics.log import Revision
from fxport.diagnostics.model import Finding, Level
from fxport.diagnostics.rules import RULES

# Of these stages an error means that there is no model: to hear less of it would not make one.
_FATAL_STAGES = frozenset("12349")


def levels(
    *, select: Iterable[str] = (), ignore: Iterable[str] = (), severity: Mapping[str, str] | None = None
) -> Mapping[str, Level | None]:
    """Rule id → level, None for a rule that is not wanted. Names are ids or their beginnings: "FXP4" is all of stage 4.

    With `select`, all other rules are not wanted, except errors without which a failure would be silent.
    Raises ValueError, in one line, for a name that fits no rule, an unknown level, and an error that must stay one.
    """
    found: dict[str, Level | None] = {}
    selected = {rule_id for name in select for rule_id in matching(name)}
    if selected:
        found |= {rule_id: None for rule_id in RULES if rule_id not in selected and not _is_fatal(rule_id)}
    for name in ignore:
        wanted = matching(name)
        if name in RULES:
            _refuse_fatal(name)
        found |= {rule_id: None for rule_id in wanted if not _is_fatal(rule_id)}
    for name, level in (severity or {}).items():
        if level not in Level.__members__.values():
            raise ValueError(f"'{level}' is no level for {name}: use {', '.join(Level)}")
        for rule_id in matching(name):
            if level != Level.ERROR:
                _refuse_fatal(rule_id)
            found[rule_id] = Level(level)
    return found


def by_levels(levels: Mapping[str, Level | None]) -> Revision:
    """A revision of findings that were made without `levels`: those not wanted are left out."""

    def revise(findings: Sequence[Finding]) -> Sequence[Finding]:
        pairs = [(finding, levels.get(finding.rule.id, finding.level)) for finding in findings]
        return [replace(finding, level=level) for finding, level in pairs if level is not None]

    return revise


def is_fatal(finding: Finding) -> bool:
    """Return True if a finding says that no model was made, so that only a fix helps and it cannot be suppressed."""
    return finding.level is Level.ERROR and _is_fatal(finding.rule.id)


def matching(name: str) -> list[str]:
    """The ids of the rules that an id, a name, or the beginning of ids means. Raises ValueError where none."""
    ids = [rule.id for rule in RULES.values() if name.upper() in (rule.id, rule.name.upper())]
    ids = ids or [rule_id for rule_id in RULES if len(name) > 3 and rule_id.startswith(name.upper())]
    if not ids:
        raise ValueError(f"no rule is called '{name}': `fxport rules` lists them")
    return ids


def _is_fatal(rule_id: str) -> bool:
    return rule_id in RULES and rule_id[3] in _FATAL_STAGES and RULES[rule_id].level is Level.ERROR


def _refuse_fatal(rule_id: str) -> None:
    if _is_fatal(rule_id):
        raise ValueError(f"{rule_id} {RULES[rule_id].name} stops the export, so it stays an error")
