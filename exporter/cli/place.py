"""`fxport place MODEL`: which nodes run on which provider, here or as its table of kernels foretells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log, Place, Stop, rules
from fxport.diagnostics.amounts import plural
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.source import require_file
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.against_eager import require_provider
from fxport.exporter.validation.model_file import model_of
from fxport.exporter.validation.prediction import require_table

if TYPE_CHECKING:
    from fxport.ort_runner import Placed

CPU = "cpu"


@reports()
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    provider: Annotated[
        str, typer.Option("--provider", help="The provider of ONNX Runtime; auto: CUDA or CPU.")
    ] = "auto",
    predict: arguments.Predict = None,
    reporting: Reporting = Reporting(),
) -> None:
    """Tell which nodes of an ONNX model run on which provider.

    Each node that does not run on the provider that was asked for is a warning, at the line that it came from. Exit
    codes are those of `fxport export`.
    """
    require_file(model)
    model_of(model)
    require_provider(provider)
    if predict is not None:
        require_table(predict)

    def work(log: Log) -> str:
        return predicted_on(model, predict, log) if predict is not None else placed_on(model, provider, log)

    raise typer.Exit(run(work, reporting.resolved("place", str(model))))


def placed_on(path: Path, provider: str, log: Log) -> str:
    """Open a session and ask it; returns the table."""
    from fxport.ort_runner.failures import Failure
    from fxport.ort_runner.model_file import read_model_file
    from fxport.ort_runner.placement import copies, placement_alone
    from fxport.ort_runner.providers import choose

    with log.stage("place"):
        try:
            nodes = placement_alone(path, provider)
        except Failure as failure:
            log.report(failure.rule, at=Place(str(path), 1, 1), **failure.facts)
            raise Stop(log, "place") from failure
        except ValueError as error:
            raise UsageError(f"--provider: {error}; choose another, or --predict {provider}.") from error
        wanted = choose(provider).provider.name
        file = read_model_file(path)
        for node in nodes:
            if node.provider != wanted:
                at = file.place_of_node(node.node)
                log.report(rules.NODE_ELSEWHERE, at=at, op=node.op, used=node.provider, provider=wanted)
    return "\n".join([*table(nodes), f"{plural(len(copies(file.nodes, nodes)), 'value')} copied between providers"])


def predicted_on(path: Path, provider: str, log: Log) -> str:
    """Look each node up in the table of the provider's kernels; returns the summary."""
    from fxport.exporter.lowering.kernels.placement import predicted
    from fxport.exporter.validation.prediction import prediction_of

    model = model_of(path)
    with log.stage("place"):
        for op, place in predicted(model, provider).elsewhere:
            at = place or Place(str(path), 1, 1)
            log.report(rules.NODE_ELSEWHERE, at=at, op=op, used=CPU, provider=provider)
    return prediction_of(model, provider)


def table(nodes: Sequence[Placed]) -> Iterator[str]:
    """A line for each provider: how many nodes, and of which operators, the most frequent first."""
    providers = Counter(node.provider for node in nodes)
    width = max(map(len, providers), default=0)
    for provider, count in providers.most_common():
        operators = Counter(node.op for node in nodes if node.provider == provider)
        told = ", ".join(f"{op} {number}" for op, number in operators.most_common())
        yield f"{provider:<{width}}  {plural(count, 'node')}: {told}"
