"""The nesting of a model's arguments and results as JSON, by which they are put together where there is no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from fxport.exporter.capture.arguments.inputs import children, key_name
from fxport.exporter.capture.arguments.padded import Padded
from fxport.fx_passes.program import Output, OutputKind

PLAIN = (bool, int, float, str, type(None))

NAMES: Mapping[type, str] = {Padded: "torch.nn.utils.rnn.PackedSequence"}
"""Containers of ours, by the names of those for which they stand."""

Structure = Mapping[str, Any]
"""Nesting of values.

One of `{"value": NAME}`, `{"literal": X}`, `{"list": [...]}`, `{"tuple": [...]}`, `{"dict": [[KEY, NODE], ...]}`, and
`{"type": NAME, "fields": [[NAME, NODE], ...]}` for any other container.
"""


def structure_of(arguments: Structure | None, results: Structure | None) -> str:
    """Return the JSON for the model's metadata, without what is not known; an empty text where nothing is."""
    known = {"arguments": arguments, "results": results}
    given = {name: node for name, node in known.items() if node is not None}
    return json.dumps(given) if given else ""


def of_results(skeleton: Any, outputs: Sequence[Output], results: Sequence[Any]) -> Structure:
    """Return how a structure around placeholders nests; `results` are those of the graph, one for each of `outputs`."""
    pairs = zip(outputs, results, strict=True)
    leaves = [
        {"value": output.name} if output.kind is OutputKind.USER else _literal(result)
        for output, result in pairs
        if output.kind is not OutputKind.MUTATION
    ]
    return _node(skeleton, iter(leaves))


def of_arguments(arguments: Mapping[str, Any], leaves: Sequence[tuple[str | None, Any]]) -> Structure:
    """Return how the arguments of a call nest, by the names of parameters.

    `leaves` has for each flattened value the name of the input that it is, or None and what it was in the example.
    """
    nodes = iter([{"value": name} if name is not None else _literal(value) for name, value in leaves])
    return {"dict": [[name, _node(value, nodes)] for name, value in arguments.items()]}


def _literal(value: Any) -> Structure:
    return {"literal": value if isinstance(value, PLAIN) else str(value)}


def _node(value: Any, leaves: Iterator[Structure]) -> Structure:
    inner = None if isinstance(value, torch.Tensor) else children(value)
    if inner is None:
        return next(leaves)
    nodes = [(getattr(key, "key", None), key, _node(child, leaves)) for key, child in inner]
    if type(value) in (list, tuple):
        return {type(value).__name__: [node for _, _, node in nodes]}
    if isinstance(value, dict) and type(value).__module__ in ("builtins", "collections"):
        return {"dict": [[name if isinstance(name, PLAIN) else str(name), node] for name, _, node in nodes]}
    kind = NAMES.get(type(value)) or f"{type(value).__module__}.{type(value).__qualname__}"
    return {"type": kind, "fields": [[key_name(key), node] for _, key, node in nodes]}
