"""The nodes of a file that do not run on the provider that was asked for: here, or by its table of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxport.diagnostics import Log, Place, Stop, rules
from fxport.exporter.lowering.kernels.placement import predicted
from fxport.exporter.sources.usage import UsageError
from fxport.exporter.validation.model_file import model_of
from fxport.exporter.validation.prediction import prediction_of
from fxport.ort_runner.failures import Failure
from fxport.ort_runner.model_file import read_model_file
from fxport.ort_runner.placement import copies, placement_alone
from fxport.ort_runner.providers import choose

if TYPE_CHECKING:
    from fxport.ort_runner import Placed

CPU = "cpu"


def placed_on(path: Path, provider: str, log: Log) -> tuple[Sequence[Placed], int]:
    """Open a session of a file and ask where its nodes run; report those that do not run on `provider`.

    Returns:
        The nodes with their providers, and how many values are copied between providers.

    Raises:
        Stop: ONNX Runtime cannot load the file; the finding is in the log.
        UsageError: `provider` is not on this machine.
    """
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
    return nodes, len(copies(file.nodes, nodes))


def predicted_on(path: Path, provider: str, log: Log) -> str:
    """Look each node up in the table of the provider's kernels; returns the summary."""
    model = model_of(path)
    with log.stage("place"):
        for op, place in predicted(model, provider).elsewhere:
            at = place or Place(str(path), 1, 1)
            log.report(rules.NODE_ELSEWHERE, at=at, op=op, used=CPU, provider=provider)
    return prediction_of(model, provider)
