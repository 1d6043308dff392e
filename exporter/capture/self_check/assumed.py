"""Report where a capture differs from the model, at what the capture assumed where that explains the difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from fxport.diagnostics import Finding, Fix, Level, Log, Place, rules
from fxport.exporter.capture.failures import CHOICE, TRUTH
from fxport.exporter.capture.further import values_asked_for
from fxport.exporter.capture.self_check.inputs import Call

OTHER_WAY = "it cannot be rewritten: {reason}, and the example takes the way that is left out then"

BY_VALUE = Fix(
    "Choose by the value itself, by `torch.where` or from a tensor that it is the index of, rather than by its text."
)


def assumptions(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings of a capture that tell what its graph leaves out: a way of a branch, a value in a text."""
    return [each for each in found if each.rule is rules.VALUE_MADE_TEXT or is_presumption(each)]


def is_presumption(finding: Finding) -> bool:
    """Return whether a finding says that something about the data is presumed."""
    return finding.rule is rules.DATA_DEPENDENT_CONTROL_FLOW and finding.level is Level.WARNING


def report_difference(
    at: Place | None,
    facts: Mapping[str, Any],
    assumed: Sequence[Finding],
    example: tuple[torch.nn.Module, Call],
    log: Log,
) -> None:
    """Report that a capture and the model differ.

    Reports FXP1002 at a branch of which the example takes the way that the capture leaves out, else FXP1033: where a
    value was made text, or else at the place given.

    Args:
        at: The place that is to blame where nothing was assumed.
        facts: Facts of FXP1033.
        assumed: What the capture assumed.
        example: The model, which runs once more where a branch was presumed, and the call of the example.
        log: Gets the finding.
    """
    if (branch := next(_other_ways_taken(assumed, *example), None)) is not None:
        detail = OTHER_WAY.format(reason=branch.facts["error"])
        told: Mapping[str, Any] = {"detail": detail, "error": branch.facts["error"]}
        log.report(rules.DATA_DEPENDENT_CONTROL_FLOW, at=branch.place, **told)
        return
    text = next((each.place for each in assumed if each.rule is rules.VALUE_MADE_TEXT), None)
    log.report(rules.CAPTURE_DIFFERS, at=text or at, fixes=() if text is None else (BY_VALUE,), **facts)


def choices_of_example(found: Iterable[Finding], module: torch.nn.Module, call: Call) -> list[Place]:
    """Return the lines that ask whether a mask has an effect, for a number, and are told otherwise by a call."""
    chosen = [each for each in found if is_presumption(each) and CHOICE in each.facts]
    return [each.place for each in _other_ways_taken(chosen, module, call) if each.place is not None]


def _other_ways_taken(assumed: Sequence[Finding], module: torch.nn.Module, call: Call) -> Iterator[Finding]:
    """Yield the branches of which a call is seen to take the way that the capture leaves out."""
    presumed = [(each, each.place) for each in assumed if each.place is not None and TRUTH in each.facts]
    values = values_asked_for(module, call) if presumed else {}
    for finding, place in presumed:
        contrary = not finding.facts[TRUTH]
        if any(value is contrary for value in values.get((place.path, place.line), ())):
            yield finding
