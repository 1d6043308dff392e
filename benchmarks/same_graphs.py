"""The same models exported by two states of this repository: their ONNX graphs and findings, line by line.

    python benchmarks/same_graphs.py --write before.json       # at one state
    python benchmarks/same_graphs.py --against before.json     # at the other; exits with 1 where a line differs

The models are the rows of `tests/cases/models`, and the training steps that `training_speed.py` times; `--models` picks
those whose names hold one of the texts. A line is an input, an output, a weight (with a digest of its bytes), a node
with its inputs, outputs, attributes and metadata, or a finding with its place.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import importlib
import json
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHOWN = 12


def exports(chosen: Sequence[str]) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield the name of each row and what exports it, which takes a log."""
    for name, export in (*rows(), *steps()):
        if not chosen or any(text in name for text in chosen):
            yield name, export


def rows() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield the models of the tests."""
    import fxport
    from tests.cases import models

    def export(build: Callable[[], Any], log: Any) -> Any:
        example = build()
        options = fxport.Options(allow_specialization=example.constants)
        call, shapes = (example.model, example.args, example.kwargs), example.dynamic_shapes
        return fxport.export(*call, dynamic_shapes=shapes, options=options, log=log)

    for info in pkgutil.iter_modules(models.__path__):
        for case in importlib.import_module(f"{models.__name__}.{info.name}").CASES:
            yield f"{info.name}/{case.name}", partial(export, case.build)


def steps() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Yield the training steps."""
    from training_races import RACES, Race

    from fxport.exporter.training import export_training_step

    def export(make: Callable[[], Race], log: Any) -> Any:
        race = make()
        model, parameters = race.model.train(), list(race.model.parameters())
        return export_training_step(model, race.optimizer(parameters), race.loss, race.batch, steps=race.steps, log=log)

    for name, (make, _) in RACES.items():
        yield f"training/{name}", partial(export, make)


def lines_of(export: Callable[[Any], Any], path: Path) -> list[str]:
    """Export an example, save it, and return the lines of the file and of the log."""
    import onnx
    import torch

    import fxport

    torch.manual_seed(0)
    log = fxport.Log()
    try:
        program = export(log)
    except fxport.ExportError:
        return [*findings(log), "no model"]
    program.save(path)
    return [*findings(log), *lines_of_model(onnx.load(path))]


def findings(log: Any) -> Iterator[str]:
    for each in log.findings:
        yield f"finding {each.rule.id} {each.place} {each.message}"


def lines_of_model(model: Any) -> Iterator[str]:
    """Yield one line for each part of a protobuf model, in the order in which they are written."""
    yield f"opsets {sorted((each.domain, each.version) for each in model.opset_import)}"
    yield from (f"metadata {each.key}: {each.value}" for each in model.metadata_props)
    yield from lines_of_graph(model.graph, "")
    for function in model.functions:
        yield f"function {function.domain}::{function.name} {list(function.input)} -> {list(function.output)}"
        for node in function.node:
            yield from lines_of_node(node, "  ")


def lines_of_graph(graph: Any, indent: str) -> Iterator[str]:
    for kind, values in (("input", graph.input), ("output", graph.output), ("value", graph.value_info)):
        yield from (f"{indent}{kind} {text_of(each)}" for each in values)
    for tensor in graph.initializer:
        yield f"{indent}weight {tensor.name} {tensor.data_type} {list(tensor.dims)} {digest(tensor)}"
    for node in graph.node:
        yield from lines_of_node(node, indent)


def lines_of_node(node: Any, indent: str) -> Iterator[str]:
    told = {each.key: each.value for each in node.metadata_props}
    head = f"{indent}{node.name}: {list(node.output)} = {node.domain}::{node.op_type}({', '.join(node.input)})"
    yield f"{head} {told}"
    for attribute in sorted(node.attribute, key=lambda each: each.name):
        if attribute.HasField("g"):
            yield f"{indent}  .{attribute.name}"
            yield from lines_of_graph(attribute.g, indent + "    ")
        elif attribute.HasField("t"):
            yield f"{indent}  .{attribute.name} = {digest(attribute.t)}"
        else:
            yield f"{indent}  .{text_of(attribute)}"


def text_of(message: Any) -> str:
    return " ".join(str(message).split())


def digest(tensor: Any) -> str:
    from onnx import numpy_helper

    return hashlib.sha256(numpy_helper.to_array(tensor).tobytes()).hexdigest()[:16]


def exported(chosen: Sequence[str]) -> dict[str, list[str]]:
    """Export every chosen row; the names of temporary folders are left out of what is told."""
    found: dict[str, list[str]] = {}
    for name, export in exports(chosen):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name] = [line.replace(folder, "") for line in lines_of(export, Path(folder) / "model.onnx")]
        print(f"{name}: {len(found[name])} lines", file=sys.stderr)
    return found


def differences(before: dict[str, list[str]], after: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the lines that differ, by the name of the model; only models that both have."""
    found: dict[str, list[str]] = {}
    for name in before.keys() & after.keys():
        if before[name] != after[name]:
            changed = difflib.unified_diff(before[name], after[name], "before", "after", n=0, lineterm="")
            found[name] = [*changed]
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[], help="texts, one of which the name of a row holds")
    parser.add_argument("--write", type=Path, help="write the lines here")
    parser.add_argument("--against", type=Path, help="compare with the lines that were written here")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    after = exported(options.models)
    if options.write:
        options.write.write_text(json.dumps(after) + "\n", encoding="utf-8")
    if options.against:
        before = json.loads(options.against.read_text(encoding="utf-8"))
        found = differences(before, after)
        for name, lines in found.items():
            print(name, *(f"  {line}" for line in lines[:SHOWN]), sep="\n")
        print(f"{len(before.keys() & after.keys())} models, {len(found)} differ")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()
