"""Branches of a model that the samples have run: one that no sample ran has not been validated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from fxport.ort_runner.cuts import Cuts, scratch
from fxport.ort_runner.model_file import ModelFile
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.session import Runtime
from fxport.ort_runner.trials import NAME, locations, opened_on

CAPTURED = "cond"
"""Name prefix of the captured graph's nodes that stand for a branch of the model: lowerings make Ifs as well."""

ARMS = {True: "then_branch", False: "else_branch"}
NAMED = 3
"""Layers that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a model, as the samples ran it.

    Attributes:
        tests: What its test was.
        layers: By each value of the test the layers whose weights the model reads there alone.
    """

    tests: frozenset[bool]
    layers: Mapping[bool, Sequence[str]]

    @property
    def missing(self) -> Collection[bool]:
        """The values that its test never had; none of a test that never ran."""
        return {True, False} - self.tests if self.tests else ()

    def reads(self, test: bool) -> str:
        """Name the layers of one way."""
        first, more = self.layers[test][:NAMED], len(self.layers[test]) - NAMED
        named = ", ".join(f"'{each}'" for each in first) + (f" and {more} more" if more > 0 else "")
        return named or "none"


def branches_run(model: ModelFile, samples: Sequence[Samples], runtime: Runtime) -> Mapping[str, Branch]:
    """Return by its name each If that stands in the model's own graph for a branch of the user's.

    The tests alone are run, with what they follow from. Raises Failure.
    """
    if not any(node.op == "If" and _is_users(model, node.name) for node in model.nodes):
        return {}
    cuts = Cuts(model.path)
    weights = {each.name for each in cuts.graph.initializer}
    branches = {node.name: node for node in cuts.graph.node if node.op_type == "If" and _is_users(model, node.name)}
    tests = {name: node.input[0] for name, node in branches.items()}
    made = {value.name for value in (*cuts.graph.value_info, *cuts.graph.output)}  # what can be an output
    found = _computed(cuts, sorted(made.intersection(tests.values())), model, samples, runtime)
    runs = [{**each.inputs, **computed} for each, computed in zip(samples, found, strict=True)]
    return {
        name: Branch(
            frozenset(bool(np.all(run[test])) for run in runs if test in run), _layers(branches[name], weights)
        )
        for name, test in tests.items()
    }


def _layers(branch: onnx.NodeProto, weights: Collection[str]) -> Mapping[bool, Sequence[str]]:
    bodies = {attribute.name: attribute.g for attribute in branch.attribute}
    read = {
        test: [name for name in _read(bodies[arm]) if name in weights and "." in name] for test, arm in ARMS.items()
    }
    return {
        test: list(dict.fromkeys(name.rpartition(".")[0] for name in names if name not in read[not test]))
        for test, names in read.items()
    }


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _read(body)


def _computed(
    cuts: Cuts, values: Sequence[str], model: ModelFile, samples: Sequence[Samples], runtime: Runtime
) -> Sequence[Mapping[str, np.ndarray]]:
    """These values of the graph for each of the samples."""
    if not values:
        return [{} for _ in samples]
    with scratch(model.path, locations(model)) as folder:
        path = folder / NAME
        path.write_bytes(cuts.with_outputs(values).SerializeToString())
        with opened_on(path, runtime) as (_, run):
            return [run(each.inputs) for each in samples]


def _is_users(model: ModelFile, name: str) -> bool:
    return (model.place_of_node(name).node or "").startswith(CAPTURED)
