"""`fxport diff OLD NEW`: two ONNX files told apart, by interface, operators, weights and results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from diagnostics import Log, Place, Rule, rules
from diagnostics.messages import error_line
from exporter.cli import arguments
from exporter.cli.check.facts import contract_of, operators_of
from exporter.cli.check.lock import differing
from exporter.cli.edge import run
from exporter.cli.model_file import model_of, require_weights
from exporter.cli.reporting import Reporting, reports
from exporter.cli.results import Numerics, numerics_of
from exporter.cli.source import require_file
from exporter.cli.summary import count_nodes, plural
from exporter.cli.usage import UsageError
from exporter.cli.validation import require_provider

if TYPE_CHECKING:
    import onnx_ir as ir

Change = tuple[Rule, Mapping[str, Any]]  # Any: facts are what a rule's message takes
Comparison = Callable[[Any, Any], Iterator[Change]]  # Any: ir.Model, which is imported on use


@reports()
def command(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="An ONNX file.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another.")],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--inputs", metavar="FILE", help="Inputs to run both on: .npz or .pt, by the files' names. Repeatable."
        ),
    ] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Do not run the files.")] = False,
    provider: arguments.Provider = "auto",
    reporting: Reporting = Reporting(),
) -> None:
    """Tell two ONNX files apart: interface, operators, weights, and what they compute from the same inputs.

    A change of the interface is an error, other weights or results are a warning, other operators a note. Without
    --inputs both run on random ones. Exit codes are those of `fxport export`.
    """
    for path in (old, new):
        require_file(path)
    require_provider(provider)
    if no_run and inputs:
        raise UsageError("--no-run leaves --inputs without a use; leave one of them out.")
    ran = None if no_run else Numerics(old, new, inputs or (), provider)
    raise typer.Exit(run(lambda log: compare(old, new, log, ran), reporting.resolved("diff", str(new))))


def compare(old: Path, new: Path, log: Log, ran: Numerics | None = None) -> str:
    """Report each difference, of results where both are `ran`; returns the summary."""
    before, after = model_of(old), model_of(new)
    for path in (old, new):
        require_weights(path, log)
    place, counts = Place(str(new.resolve()), 1, 1), dict.fromkeys(COMPARISONS, 0)
    for what, comparison in COMPARISONS.items():
        try:
            for rule, facts in comparison(before, after):
                log.report(rule, at=place, **facts)
                counts[what] += 1
        except (OSError, ValueError) as error:  # weights with fewer bytes than their shape needs
            raise UsageError(f"The {what} cannot be compared: {error_line(error)}; export the file again.") from error
    told = [f"{what}: {plural(count, 'difference') if count else 'equal'}" for what, count in counts.items()]
    numerics = numerics_of(ran, place, log) if ran else []
    return "\n".join([*told, *numerics, f"nodes: {count_nodes(before)} → {count_nodes(after)}"])


def interface(old: ir.Model, new: ir.Model) -> Iterator[Change]:
    """Names, types, shapes and order of inputs and outputs; opsets."""
    sides = (("input", old.graph.inputs, new.graph.inputs), ("output", old.graph.outputs, new.graph.outputs))
    for kind, before, after in sides:
        for name, was, now in differing(contract_of(before), contract_of(after)):
            yield rules.CONTRACT_CHANGED, {"name": f"{kind} {name}", "old": was, "new": now}
    versions = [{domain: str(number) for domain, number in model.opset_imports.items()} for model in (old, new)]
    for domain, was, now in differing(*versions):
        yield rules.CONTRACT_CHANGED, {"name": f"opset {domain or 'ai.onnx'}", "old": was, "new": now}


def operators(old: ir.Model, new: ir.Model) -> Iterator[Change]:
    """The number of nodes of each operator."""
    before, after = operators_of(old), operators_of(new)
    for op in sorted({*before, *after}):
        if before[op] != after[op]:
            yield rules.OPERATORS_CHANGED, {"op": op, "old": before[op], "new": after[op]}


def weights(old: ir.Model, new: ir.Model) -> Iterator[Change]:
    """Initializers by name, then, of those that have no partner, by content: a new name alone is no change."""
    before, after = old.graph.initializers, new.graph.initializers
    lost = {name: digest_of(before[name]) for name in before if name not in after}
    added = {name: digest_of(after[name]) for name in after if name not in before}
    for name in before:
        if name in after and (detail := difference(before[name], after[name])):
            yield rules.WEIGHTS_CHANGED, {"name": name, "detail": detail}
        elif name in lost and lost[name] not in added.values():
            yield rules.WEIGHTS_CHANGED, {"name": name, "detail": "it is no longer there"}
    for name, digest in added.items():
        if digest not in lost.values():
            yield rules.WEIGHTS_CHANGED, {"name": name, "detail": "it is new"}


def difference(old: ir.Value, new: ir.Value) -> str:
    """How two weights of one name differ; "" where they are equal."""
    import numpy as np

    one, other = old.const_value, new.const_value
    if one is None or other is None:
        return "" if one is other else "only one of the files has its values"
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f"it was {said(one)}, it is {said(other)}"
    if one.tobytes() == other.tobytes():
        return ""
    wide = [np.asarray(tensor.numpy()).astype(np.float64) for tensor in (one, other)]
    gap = np.abs(wide[0] - wide[1])
    worst = np.nanmax(gap, initial=0.0)
    return f"the largest difference is {worst:.3g}, in {np.count_nonzero(gap)} of {gap.size} values"


def said(tensor: ir.TensorProtocol) -> str:
    return f"{tensor.dtype.name.lower()} [{', '.join(map(str, tensor.shape))}]"


def digest_of(value: ir.Value) -> str:
    """Type, shape and values in short; read one weight at a time."""
    tensor = value.const_value
    return hashlib.sha256(said(tensor).encode() + tensor.tobytes()).hexdigest() if tensor is not None else ""


COMPARISONS: Mapping[str, Comparison] = {
    "interface": interface,
    "operators": operators,
    "weights": weights,
}
