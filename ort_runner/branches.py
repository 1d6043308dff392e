"""Branches of a model that the samples have run: one that no sample ran has not been validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fxport.ort_runner.cuts import Cuts, scratch
from fxport.ort_runner.model_file import ModelFile
from fxport.ort_runner.samples import Samples
from fxport.ort_runner.session import Runtime
from fxport.ort_runner.trials import NAME, locations, opened_on

CAPTURED = "cond"
"""Name prefix of the captured graph's nodes that stand for a branch of the model: lowerings make Ifs as well."""

Ways = Mapping[str, frozenset[bool]]


def ways_taken(model: ModelFile, samples: Sequence[Samples], runtime: Runtime) -> Ways:
    """By the name of each If that stands in the model's own graph for a branch of the user's: what its test was.

    The tests alone are run, with what they follow from. Raises Failure.
    """
    if not any(node.op == "If" and _is_users(model, node.name) for node in model.nodes):
        return {}
    cuts = Cuts(model.path)
    tests = {
        node.name: node.input[0] for node in cuts.graph.node if node.op_type == "If" and _is_users(model, node.name)
    }
    made = {value.name for value in (*cuts.graph.value_info, *cuts.graph.output)}  # what can be an output
    found = _computed(cuts, sorted(made.intersection(tests.values())), model, samples, runtime)
    runs = [{**each.inputs, **computed} for each, computed in zip(samples, found, strict=True)]
    return {name: frozenset(bool(np.all(run[test])) for run in runs if test in run) for name, test in tests.items()}


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
