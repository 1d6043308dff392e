"""Other names for dynamic dimensions, wherever the model has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from fxport.exporter.lowering.lower.walk import CONDITIONS

Renaming = Mapping[str, str]
"""New names of dimensions by the old ones."""


def renaming_of(model: ir.Model, wanted: Mapping[str | ir.SymbolicDim, str]) -> Renaming:
    """The renaming by names. Raises ValueError for a name that is not the model's, or one that is taken."""
    texts = {
        str(dim.value) for shape in _shapes(model) for dim in shape if isinstance(dim, ir.SymbolicDim) and dim.value
    }
    names = texts | {name for text in texts for name in re.findall(r"[^\W\d][\w.]*", text)}
    renaming: dict[str, str] = {}
    for key, new in wanted.items():
        old = str(key.value) if isinstance(key, ir.SymbolicDim) else key
        if old not in names:
            raise ValueError(f"no dimension is called '{old}'; the dimensions are: {', '.join(sorted(names))}")
        if not isinstance(new, str) or not new:
            raise ValueError(f"the new name of '{old}' is {new!r}; give a string")
        renaming[old] = new
    kept = names - renaming.keys()
    for old, new in renaming.items():
        if old != new and (new in kept or list(renaming.values()).count(new) > 1):
            raise ValueError(f"'{old}' cannot be called '{new}': another dimension is, and one name means one size")
    return renaming


def rename_axes(model: ir.Model, renaming: Renaming) -> None:
    """Renames dimensions in all shapes, expressions of them included, and in the conditions of the model."""
    for shape in _shapes(model):
        for axis, dim in enumerate(shape):
            if isinstance(dim, ir.SymbolicDim) and dim.value:
                text = renamed_text(str(dim.value), renaming)
                if text != dim.value:
                    shape[axis] = text
    if CONDITIONS in model.metadata_props:
        words = json.loads(model.metadata_props[CONDITIONS])
        model.metadata_props[CONDITIONS] = json.dumps([renamed_text(each, renaming) for each in words])


def renamed_text(text: str, renaming: Renaming) -> str:
    """An expression such as "2*batch + 1" with other names in it; all are replaced at once, so that two can swap."""
    if not renaming:
        return text
    longest_first = sorted(renaming, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<![\w.])(?:{pattern})(?![\w.])", lambda match: renaming[match[0]], text)


def _shapes(model: ir.Model) -> Iterator[ir.Shape]:
    """Each shape object of the model once: they may be shared."""
    seen: set[int] = set()
    for graph in (*model.graphs(), *model.functions.values()):
        values = [*graph.inputs, *graph.outputs, *(value for node in graph for value in node.outputs)]
        for value in values:
            if value.shape is not None and id(value.shape) not in seen:
                seen.add(id(value.shape))
                yield value.shape
