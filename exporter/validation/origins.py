"""Origins of the differences of several outputs: each has that of an operation that it is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fxport.diagnostics.messages import error_line
from fxport.exporter.validation.attribution import Attribution, Subject, attribute
from fxport.fx_passes.program import OutputKind, Program

if TYPE_CHECKING:
    from torch.fx import Node

    from fxport.ort_runner import Samples
    from fxport.ort_runner.validate import Explain, Origin

MOST_SECONDS = 15.0
"""From the beginning of the first search for an origin, for those with other samples where it could not be told, and
for outputs that the origin of another one is no part of."""


def explainer(
    subject: Subject,
    cases: Sequence[Samples],
    adapt: Callable[[Samples], Samples],
    told: Callable[[Attribution], None],
) -> Explain:
    """Finds the origin of a difference, once for each output: that of the first sample for which it can be told.

    After `MOST_SECONDS` no further sample is tried for an output.

    `cases` have the names of the program, and `adapt` gives them those of the file.
    """
    from fxport.ort_runner.validate import Origin

    found: dict[str, Origin] = {}
    until = None

    def explain(samples: Samples, outputs: Collection[str], is_exact: bool) -> Mapping[str, Origin]:
        nonlocal until
        until = time.monotonic() + MOST_SECONDS if until is None else until
        is_late = time.monotonic() > until
        wanted = [name for name in outputs if name not in found or (found[name].place is None and not is_late)]
        if wanted:
            case = next(each for each in cases if each.label == samples.label)
            adapted = adapt(case)
            names = dict(zip(adapted.outputs, case.outputs, strict=True))

            def attributed(group: Sequence[str]) -> Attribution:
                own = case.only([names[name] for name in group])
                attribution = attribute(subject, own, adapted.only(group), exact=is_exact)
                told(attribution)
                return attribution

            try:
                found.update(_origins(subject.program.program, names, wanted, attributed, until))
            except Exception as error:  # noqa: BLE001 - it runs the user's graph and parts of models; the finding tells
                origin = Origin(f"cannot be told, because the search failed: {error_line(error)}")
                found.update({name: origin for name in wanted if name not in found})
        return {name: found[name] for name in outputs}

    return explain


def _origins(
    program: Program,
    names: Mapping[str, str],
    wanted: Sequence[str],
    attributed: Callable[[Sequence[str]], Attribution],
    until: float,
) -> Iterator[tuple[str, Origin]]:
    """Yield the origin of each output. Those are searched together as long as they have one."""
    from fxport.ort_runner.validate import UNSOUGHT, Origin

    pending, seen = [list(wanted)], list[Attribution]()
    while pending:
        group = pending.pop()
        if seen and time.monotonic() > until:
            yield from ((name, UNSOUGHT) for name in group)
            continue
        attribution = attributed(group)
        reached = _reached(program, attribution)
        own = [name for name in group if reached is None or names[name] in reached]
        if len(group) == 1 or any(attribution.place and attribution.place == each.place for each in seen):
            own = group
        elif attribution.stage is None:
            own = []
        seen.append(attribution)
        rest = [name for name in group if name not in own]
        pending += [rest] if own and rest else [[name] for name in rest]
        origin = Origin(attribution.text, attribution.place, attribution.related)
        yield from ((name, origin) for name in own)


def _reached(program: Program, attribution: Attribution) -> Collection[str] | None:
    """The program's outputs that an origin takes part in; None for all: of a failure of the whole model, and where the
    graph does not have its operation."""
    place, cause = attribution.place, attribution.divergence.cause if attribution.divergence else None
    if cause and "error" in cause.verdict.facts:
        return None
    wanted = {place.node if place else None, cause.mark.fx_node if cause else None}
    nodes = [node for node in program.graph_module.graph.nodes if node.name in wanted]
    if not nodes:
        return None
    results = program.graph_module.graph.output_node().args[0]
    assert isinstance(results, (tuple, list))
    below = _below(nodes)
    pairs = zip(program.outputs, results, strict=True)
    return {entry.name for entry, result in pairs if entry.kind is OutputKind.LITERAL or result in below}


def _below(nodes: Collection[Node]) -> Collection[Node]:
    """The nodes, and all that is made of them."""
    found, pending = set(nodes), list(nodes)
    while pending:
        new = [user for user in pending.pop().users if user not in found]
        found.update(new)
        pending += new
    return found
