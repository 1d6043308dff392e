"""Several steps in one graph: an ONNX Loop whose body is the step, and which carries the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from fxport.exporter.training.step import BATCH, MASK, SEED


def repeated(model: ir.Model, pairs: Mapping[str, str], steps: int) -> ir.Model:
    """The model of one step as a model of `steps` of them, changed in place.

    `pairs` are the state's inputs and the outputs with their new values. Every `batch/` and every `mask/` input gets a
    leading axis of `steps`, one slice a step; every output that is no state is stacked likewise. A seed counts up from
    step to step.
    """
    graph = model.graph
    inner = list(graph.inputs)
    produced = {value.name: value for value in graph.outputs}
    carried = [value for value in inner if value.name in pairs]
    stacked = [value for value in graph.outputs if value.name not in pairs.values()]
    nodes, initializers = list(graph), list(graph.initializers.values())
    names = [value.name for value in inner]
    graph.remove(nodes)
    graph.initializers.clear()
    graph.inputs.clear()
    graph.outputs.clear()
    outer = {name: _outer(value, name, steps) for name, value in zip(names, inner, strict=True)}
    turn, going = _typed("turn", ir.DataType.INT64), _typed("going", ir.DataType.BOOL)
    before = _reads(inner, outer, pairs, turn)
    still = ir.node("Identity", [going], name="going/Identity")
    still.outputs[0].name = "still_going"
    still.outputs[0].type = going.type
    nexts = [produced[pairs[str(value.name)]] for value in carried]
    kept = [(str(value.name), value.shape, value.type) for value in (*nexts, *stacked)]
    for value in (*carried, *nexts, *stacked):
        value.name = f"{value.name}.step"
    body = ir.Graph(
        [turn, going, *carried], [still.outputs[0], *nexts, *stacked], nodes=[*before, *nodes, still], name="step"
    )
    count = _constant("steps", np.array(steps, np.int64))
    forever = _constant("always", np.array(True))
    loop = ir.Node(
        "",
        "Loop",
        [count, forever, *(outer[name] for name, value in zip(names, inner, strict=True) if value in carried)],
        [ir.AttrGraph("body", body)],
        num_outputs=len(kept),
        name="steps/Loop",
    )
    for index, (result, (name, shape, kind)) in enumerate(zip(loop.outputs, kept, strict=True)):
        lead = [steps] if index >= len(carried) else []
        result.name, result.type, result.shape = name, kind, ir.Shape([*lead, *(shape or ())])
    return ir.Model(
        ir.Graph(
            list(outer.values()),
            list(loop.outputs),
            nodes=[loop],
            initializers=[*initializers, count, forever],
            opset_imports=graph.opset_imports,
            name=graph.name,
        ),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        metadata_props=dict(model.metadata_props),
    )


def _is_sliced(name: str | None) -> bool:
    """Return True if every step has its own value: a part of the batch, or random numbers."""
    return str(name).partition("/")[0] in (BATCH, MASK)


def _outer(value: ir.Value, name: str | None, steps: int) -> ir.Value:
    """The input of the whole for an input of one step."""
    lead = [steps] if _is_sliced(name) else []
    return ir.Value(name=name, type=value.type, shape=ir.Shape([*lead, *(value.shape or ())]))


def _reads(
    inner: Sequence[ir.Value], outer: Mapping[str | None, ir.Value], pairs: Mapping[str, str], turn: ir.Value
) -> list[ir.Node]:
    """The nodes with which a turn takes its slice of the batch and its seed; all else it reads from outside."""
    nodes: list[ir.Node] = []
    for value in inner:
        if value.name in pairs:
            continue
        whole = outer[value.name]
        if _is_sliced(value.name):
            node = ir.node("Gather", [whole, turn], {"axis": 0}, name=f"{value.name}/Gather")
        elif value.name == SEED:
            node = ir.node("Add", [whole, turn], name=f"{value.name}/Add")
        else:
            value.replace_all_uses_with(whole)
            continue
        node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = (
            f"{value.name}.step",
            value.type,
            value.shape,
        )
        value.replace_all_uses_with(node.outputs[0])
        nodes.append(node)
    return nodes


def _typed(name: str, dtype: ir.DataType) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape([]))


def _constant(name: str, array: np.ndarray) -> ir.Value:
    tensor = ir.Tensor(array, name=name)
    return ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=tensor.shape, const_value=tensor)
