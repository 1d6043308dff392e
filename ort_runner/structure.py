"""The structure that a model's results had in PyTorch, given back to the outputs of its ONNX form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

STRUCTURE = "fxport.structure"
"""Key of the model's metadata: how its results nest, with the names of its outputs at the leaves."""


class NoStructure(ValueError):
    """A model that does not say how its results nest."""


def restored(outputs: Mapping[str, Any], metadata: Mapping[str, str]) -> Any:
    """What the model returned in PyTorch: outputs by name in its dicts, lists and tuples, with its constants and None.

    `metadata` is that of the model, such as `session.get_modelmeta().custom_metadata_map`. Containers of other types
    (dataclasses, named tuples, a library's own outputs) become dicts of their fields, since their classes may not be
    there. Raises NoStructure for metadata of another model, and KeyError for an output that is missing.
    """
    if STRUCTURE not in metadata:
        raise NoStructure(f"the metadata has no '{STRUCTURE}': export the model with fxport")
    return _filled(json.loads(metadata[STRUCTURE]), outputs)


def _filled(node: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    form = next(each for each in FORMS if each in node)
    return FORMS[form](node[form], outputs)


def _pairs(pairs: Any, outputs: Mapping[str, Any]) -> dict[Any, Any]:
    return {key: _filled(node, outputs) for key, node in pairs}


FORMS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "value": lambda name, outputs: outputs[name],
    "literal": lambda value, _: value,
    "list": lambda nodes, outputs: [_filled(node, outputs) for node in nodes],
    "tuple": lambda nodes, outputs: tuple(_filled(node, outputs) for node in nodes),
    "dict": _pairs,
    "fields": _pairs,
}
"""What a node of the structure stands for, by its form."""
