"""The structure that a model's arguments and results had in PyTorch, for the inputs and outputs of its ONNX form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fxport.diagnostics.errors import FxportError
from fxport.diagnostics.limits import METADATA, json_of

STRUCTURE = "fxport.structure"
"""Key of the model's metadata: how arguments and results nest, with the names of inputs and outputs at the leaves."""

Node = Mapping[str, Any]


class NoStructure(FxportError, ValueError):
    """A model that does not say how its arguments or results nest."""


class OtherStructure(FxportError, ValueError):
    """Arguments that do not nest as those of the model. The text says where."""


def flattened(arguments: Mapping[str, Any], metadata: Mapping[str, str]) -> dict[str, Any]:
    """Flatten arguments by the names of `forward`'s parameters into feeds by the names of the model's inputs.

    Containers of other types than dicts, lists and tuples may be dicts of their fields, or objects that have them. A
    value that was a constant when the model was exported may be left out. Raises OtherStructure where something is
    missing, too much, or another constant, and NoStructure for metadata of another model.
    """
    return dict(_fed(_part("arguments", metadata), arguments, ""))


def restored(outputs: Mapping[str, Any], metadata: Mapping[str, str]) -> Any:
    """Restore what the model returned in PyTorch: outputs by name in its dicts, lists and tuples, with its constants
    and None.

    `metadata` is that of the model, such as `session.get_modelmeta().custom_metadata_map`. Containers of other types
    (dataclasses, named tuples, a library's own outputs) become dicts of their fields, since their classes may not be
    there. Raises NoStructure for metadata of another model, and KeyError for an output that is missing.
    """
    return _filled(_part("results", metadata), outputs)


def _part(name: str, metadata: Mapping[str, str]) -> Node:
    try:
        held = json_of(metadata.get(STRUCTURE, "{}"), METADATA)
    except ValueError:  # another tool's
        held = {}
    if not isinstance(held, dict) or not _is_node(held.get(name)):
        raise NoStructure(f"the metadata '{STRUCTURE}' has no {name}: export the model with fxport")
    return held[name]


def _is_node(node: Any) -> bool:
    """Return True for a node with a form that is known, and nodes within it."""
    form = next((each for each in FORMS if each in node), None) if isinstance(node, dict) else None
    if form is None or form == "literal":
        return form is not None
    content = node[form]
    if form == "value":
        return isinstance(content, str)
    if not isinstance(content, list):
        return False
    if form in ("list", "tuple"):
        return all(map(_is_node, content))
    pairs = all(isinstance(pair, list) and len(pair) == 2 for pair in content)
    return pairs and all(isinstance(key, KEYS) and _is_node(child) for key, child in content)


KEYS = (str, int, float, bool, type(None))
"""Types of the keys of a dict in a structure: those that JSON has, and that can be keys."""


def _filled(node: Node, outputs: Mapping[str, Any]) -> Any:
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
"""Function for each form of a structure's node, from its content and the outputs to its value."""


def _fed(node: Node, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(input, value) for each of them in what an argument holds."""
    if "value" in node:
        yield node["value"], value
    elif "literal" in node:
        if value != node["literal"]:
            raise OtherStructure(f"'{path}' is {value!r}, but was exported as the constant {node['literal']!r}")
    else:
        for name, child, held in _children(node, value, path):
            yield from _fed(child, held, _joined(path, name))


def _children(node: Node, value: Any, path: str) -> Iterator[tuple[Any, Node, Any]]:
    """(name, node, value) of what a container holds, without constants that are left out."""
    items = node.get("list", node.get("tuple"))
    if items is not None:
        if not isinstance(value, (list, tuple)) or len(value) != len(items):
            raise OtherStructure(f"'{path}' has to be a sequence of {len(items)}")
        yield from ((number, *pair) for number, pair in enumerate(zip(items, value, strict=True)))
        return
    pairs = node.get("dict", node.get("fields", ()))
    if isinstance(value, Mapping) and (unknown := value.keys() - {name for name, _ in pairs}):
        raise OtherStructure(f"the model has no argument '{_joined(path, min(map(str, unknown)))}'")
    for name, child in pairs:
        if _has(value, name):
            yield name, child, value[name] if isinstance(value, Mapping) else getattr(value, name)
        elif "literal" not in child:
            raise OtherStructure(f"the argument '{_joined(path, name)}' is missing")


def _has(value: Any, name: Any) -> bool:
    return name in value if isinstance(value, Mapping) else hasattr(value, str(name))


def _joined(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)
