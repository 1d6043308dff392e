"""Advice for a model of which nothing is known (FXP9003), by what ended its run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fxport.diagnostics import Fix
from fxport.diagnostics.crashes import CRASHES

CRASHED = "Leave out the call at the marked line, or take another version of its library, which crashed."
ADVICE: Mapping[str, str] = {
    "was stopped": "Look at the marked line for what does not end; raise `time_limit` for a model that needs longer.",
    "more memory than it may": "Raise `memory` for a model that needs more, or make its example inputs smaller.",
    "it ended its process": "Take what ends the process out of the code that `forward` runs.",
    "SIGKILL": "See whether memory ran out: a loop that makes a tensor larger at each turn may not end for the example "
    "inputs; else close other programs, or make the inputs smaller.",
    "SIGABRT": "See whether memory ran out; else leave out the call at the marked line, or take another version of its "
    "library.",
    **{f"killed by {name}": CRASHED for name in sorted(CRASHES)},
    "crashed (SIG": CRASHED,
}
"""Advice by a part of the reason; the first that is in it."""


def fixes_for(reason: str) -> Sequence[Fix]:
    """Return the advice for a reason; none where the page of the rule has all that can be said."""
    return [Fix(advice) for part, advice in ADVICE.items() if part in reason][:1]
