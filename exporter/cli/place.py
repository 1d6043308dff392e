"""`fxport place MODEL`: which nodes run on which provider, here or as its table of kernels foretells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fxport.diagnostics import Log
from fxport.diagnostics.amounts import plural
from fxport.exporter.cli import arguments
from fxport.exporter.cli.edge import run
from fxport.exporter.cli.reporting import Reporting, reports
from fxport.exporter.sources.source import require_file
from fxport.exporter.validation.choices import require_provider, require_runtime, require_table

if TYPE_CHECKING:
    from fxport.ort_runner import Placed


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
    require_provider(provider)
    if predict is not None:
        require_table(predict)
    else:
        require_runtime("place")

    from fxport.exporter.validation.model_file import model_of
    from fxport.exporter.validation.placement import placed_on, predicted_on

    model_of(model)

    def work(log: Log) -> str:
        if predict is not None:
            return predicted_on(model, predict, log)
        nodes, copied = placed_on(model, provider, log)
        return "\n".join([*table(nodes), f"{plural(copied, 'value')} copied between providers"])

    raise typer.Exit(run(work, reporting.resolved("place", str(model))))


def table(nodes: Sequence[Placed]) -> Iterator[str]:
    """A line for each provider: how many nodes, and of which operators, the most frequent first."""
    providers = Counter(node.provider for node in nodes)
    width = max(map(len, providers), default=0)
    for provider, count in providers.most_common():
        operators = Counter(node.op for node in nodes if node.provider == provider)
        told = ", ".join(f"{op} {number}" for op, number in operators.most_common())
        yield f"{provider:<{width}}  {plural(count, 'node')}: {told}"
