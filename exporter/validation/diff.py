"""Two ONNX files compared: interface, operators, weights, and what they compute from the same inputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Fix, Log, Place, rules
from fxport.diagnostics.amounts import plural
from fxport.diagnostics.messages import error_line
from fxport.exporter.onnx_program.described import count_nodes
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.differences import COMPARISONS, are_unrelated
from fxport.exporter.validation.model_file import model_of, require_weights
from fxport.exporter.validation.results import Numerics, numerics_of

if TYPE_CHECKING:
    import onnx_ir as ir

OF_ONE_MODEL = Fix("Name two files of one model: these share no interface and no weights, so no more was compared.")
NO_MANIFEST = Fix("Undo the change, or tell those who call the model.")


@contextmanager
def comparing(what: str) -> Iterator[None]:
    """Raise UsageError for weights that cannot be read, such as those with fewer bytes than their shape needs."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UsageError(f"The {what} cannot be compared: {error_line(error)}; export the file again.") from error


def _fed(model: ir.Model) -> set[str | None]:
    """Return the names of the inputs that a run has to give."""
    return {each.name for each in model.graph.inputs if not each.is_initializer()}


def compare(old: Path, new: Path, log: Log, ran: Numerics | None = None) -> str:
    """Report each difference, of results where both are `ran`; returns the summary."""
    before, after = model_of(old), model_of(new)
    for path in (old, new):
        require_weights(path, log)
    place, counts = Place(str(new.resolve()), 1, 1), dict.fromkeys(COMPARISONS, 0)
    with comparing("weights"):
        unrelated = are_unrelated(before, after)
    if unrelated:
        log.report(rules.CONTRACT_CHANGED, at=place, fixes=[OF_ONE_MODEL], name="model", old=old.name, new=new.name)
        return "unrelated: no input or output of one name and form and no weight is in both files"
    for what, comparison in COMPARISONS.items():
        with comparing(what):
            for rule, facts in comparison(before, after):
                log.report(rule, at=place, fixes=[NO_MANIFEST] if rule is rules.CONTRACT_CHANGED else (), **facts)
                counts[what] += 1
    told = [f"{what}: {plural(count, 'difference') if count else 'equal'}" for what, count in counts.items()]
    numerics: list[str] = []
    if ran:
        same = _fed(before) == _fed(after)
        numerics = numerics_of(ran, place, log) if same else ["results: not compared, since the inputs are others"]
    return "\n".join([*told, *numerics, f"nodes: {count_nodes(before)} → {count_nodes(after)}"])
