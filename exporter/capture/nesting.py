"""How a model's results nest, as JSON: what gives them back their structure where there is no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from exporter.capture.inputs import children, key_name
from fx_passes.program import Output, OutputKind

PLAIN = (bool, int, float, str, type(None))


def structure_of(skeleton: Any, outputs: Sequence[Output], results: Sequence[Any]) -> str:
    """The JSON of a structure around placeholders; `results` are those of the graph, one for each of `outputs`.

    A node of it is one of `{"value": NAME}`, `{"literal": X}`, `{"list": [...]}`, `{"tuple": [...]}`,
    `{"dict": [[KEY, NODE], ...]}`, and `{"type": NAME, "fields": [[NAME, NODE], ...]}` for any other container.
    """
    pairs = zip(outputs, results, strict=True)
    leaves = iter([_leaf(output, result) for output, result in pairs if output.kind is not OutputKind.MUTATION])
    return json.dumps(_node(skeleton, leaves))


def _leaf(output: Output, result: Any) -> Any:
    if output.kind is OutputKind.USER:
        return {"value": output.name}
    return {"literal": result if isinstance(result, PLAIN) else str(result)}


def _node(value: Any, leaves: Iterator[Any]) -> Any:
    inner = None if isinstance(value, torch.Tensor) else children(value)
    if inner is None:
        return next(leaves)
    nodes = [(getattr(key, "key", None), key, _node(child, leaves)) for key, child in inner]
    if type(value) in (list, tuple):
        return {type(value).__name__: [node for _, _, node in nodes]}
    if isinstance(value, dict) and type(value).__module__ in ("builtins", "collections"):
        return {"dict": [[name if isinstance(name, PLAIN) else str(name), node] for name, _, node in nodes]}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return {"type": kind, "fields": [[key_name(key), node] for _, key, node in nodes]}
