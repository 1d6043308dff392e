"""Regions that are called several times become one function of the model, and a node for each call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, takewhile

import onnx_ir as ir

from fxport.exporter.lowering.ir_passes.equal_regions import Reader, escaping, is_convex, nested, reads_of, shared
from fxport.exporter.lowering.lower.builder import PLACE, REGION, RegionCall

DOMAIN = "fxport.regions"
"""Domain of the functions. They are part of the model: no runtime has to know them.

A custom operator that was written in Python has its own domain, so that a runtime that knows it may run it itself."""

LARGEST = 1024
"""Bytes of a constant that stands in a function itself, if it is the same in every call."""

Path = tuple[RegionCall, ...]
Nodes = Sequence[ir.Node]


class OutlineRegions(ir.passes.InPlacePass):
    """The last pass: until here each call has its own nodes, which the other passes simplify with its own weights.

    Calls of one region become calls of one function if the same is left of them; what differs, such as weights, goes
    in. ONNX Runtime writes the nodes back in their places when it loads a model.

    Given:   %b = Gemm(%a, %w0); %c = Relu(%b); %d = Gemm(%c, %w1); %e = Relu(%d)
    Result:  %c = Layer(%a, %w0); %e = Layer(%c, %w1)
    """

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        graph = model.graph
        if not any(region_of(node) for node in graph):
            return ir.passes.PassResult(model, False)
        _claim_new_nodes(graph)
        made = 0
        for level in range(max(len(region_of(node)) for node in graph), 0, -1):
            for calls in list(_repeated(graph, level)):
                _outline(model, calls, level)
                made += 1
            graph.sort()
        return ir.passes.PassResult(model, made > 0)


def region_of(node: ir.Node) -> Path:
    """The calls of regions that a node of the main graph belongs to, outermost first."""
    return node.meta.get(REGION, ())


def _claim_new_nodes(graph: ir.Graph) -> None:
    """A node that a pass made between nodes of a call belongs to that call."""
    before, after = dict[ir.Node, set[Path]](), dict[ir.Node, set[Path]]()
    for node in graph:
        before[node] = set[Path]().union(*(_seen(each, before) for each in node.predecessors()))
    for node in reversed(graph):
        after[node] = set[Path]().union(*(_seen(each, after) for each in node.successors() if each in before))
    for node in graph:
        between = before[node] & after[node]
        if REGION not in node.meta and between:
            node.meta[REGION] = max(between, key=len)


def _seen(node: ir.Node, through: dict[ir.Node, set[Path]]) -> set[Path]:
    """The calls that a neighbour is inside of; if it does not say, those that are seen through it."""
    if REGION not in node.meta:
        return through[node]
    path = region_of(node)
    return {path[:level] for level in range(1, len(path) + 1)}


def _repeated(graph: ir.Graph, level: int) -> Iterator[list[Nodes]]:
    """The nodes of calls inside of `level - 1` others, two or more calls of which the same is left.

    One is enough of a custom operator.
    """
    calls = defaultdict[str, dict[Path, list[ir.Node]]](dict)
    holders: dict[ir.Node, ir.Node] = {}
    for node in graph:
        holders |= dict.fromkeys(nested([node]), node)
        path = region_of(node)[:level]
        if len(path) == level:
            calls[path[-1].name].setdefault(path, []).append(node)
    order = {node: number for number, node in enumerate(graph)}
    for each in calls.values():
        siblings = {node: path for path, nodes in each.items() for node in nodes}
        alike = defaultdict[object, list[Nodes]](list)
        for nodes in each.values():
            away = shared(nodes, siblings, holders)
            own = [node for node in nodes if node not in away]
            if own and is_convex(order, own):
                alike[Reader().form_of(own)].append(own)
        yield from (same for same in alike.values() if len(same) > 1 or _is_operator(same[0], level))


def _outline(model: ir.Model, calls: Sequence[Nodes], level: int) -> None:
    """One function of the first call's nodes, and a node for each call in the places of all of them."""
    graph, first = model.graph, calls[0]
    domain, name = _unused(model, region_of(first[0])[level - 1].name)
    used = sorted({place for nodes in calls for place in escaping(nodes)})
    reads = list(zip(*map(reads_of, calls), strict=True))
    constants = {number for number, values in enumerate(reads) if _is_constant(values)}
    formals = _formals(reads)
    for nodes in calls:
        inputs = [value for number, value in enumerate(reads_of(nodes)) if number not in constants]
        results = [nodes[number].outputs[index] for number, index in used]
        graph.insert_after(nodes[-1], _call(graph, (domain, name), level, nodes, inputs, results))
    for nodes in calls[1:]:
        _forget_differences(first, nodes)
        _discard(graph, nodes)
    graph.remove(first)
    _read_instead(first, dict(zip(reads_of(first), formals, strict=True)))
    head = [
        ir.node("Constant", [], {"value": reads[number][0].const_value}, outputs=[formals[number]])
        for number in sorted(constants)
    ]
    body = ir.Graph(
        [formal for number, formal in enumerate(formals) if number not in constants],
        [first[number].outputs[index] for number, index in used],
        nodes=[*head, *first],
        opset_imports=dict(graph.opset_imports),
        name=name,
    )
    for number in constants:
        value = reads[number][0]
        if not value.uses() and not value.is_graph_output():
            graph.initializers.pop(value.name)
    function = ir.Function(domain, name, graph=body, attributes=[])
    model.functions[function.identifier()] = function
    graph.opset_imports[domain] = 1


def _is_operator(nodes: Nodes, level: int) -> bool:
    return "::" in region_of(nodes[0])[level - 1].name


def _unused(model: ir.Model, region: str) -> tuple[str, str]:
    """Domain and name of a function for a region, numbered where there is one of that name."""
    domain, _, name = region.rpartition("::")
    domain = domain or DOMAIN
    taken = {function.name for function in model.functions.values() if function.domain == domain}
    free = (f"{name}_{number}" if number else name for number in count())
    return domain, next(each for each in free if each not in taken)


def _is_constant(values: Sequence[ir.Value]) -> bool:
    """Return True if calls read one small constant that the lowering made; weights keep their names and become
    inputs.
    """
    held = values[0].const_value
    return all(value is values[0] for value in values) and isinstance(held, ir.Tensor) and held.nbytes <= LARGEST


def _formals(reads: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """Return the function's inputs for the values that the calls read, with the type and shape common to all of
    them.
    """
    found: dict[str, ir.Value] = {}
    for values in reads:
        stem = _common_name(values)
        name = next(each for number in count() if (each := f"{stem}_{number}" if number else stem) not in found)
        found[name] = ir.Value(name=name, type=values[0].type, shape=values[0].shape)
        for value in values:
            _agree(found[name], value)
    return list(found.values())


def _common_name(values: Sequence[ir.Value]) -> str:
    """Return the common ending of the values' names, by their parts: "norm.weight" of the layers' weights."""
    columns = zip(*(reversed((value.name or "").split(".")) for value in values), strict=False)
    common = [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, columns)]
    return ".".join(reversed(common)) or "input"


def _agree(value: ir.Value, other: ir.Value) -> None:
    if value.shape != other.shape:
        value.shape = None
    if value.type != other.type:
        value.type = None


def _forget_differences(first: Nodes, others: Nodes) -> None:
    """Types and shapes stay on the values of the function where they are those of every call."""
    for node, other in zip(nested(first), nested(others), strict=True):
        for value, twin in zip(node.outputs, other.outputs, strict=True):
            _agree(value, twin)


def _discard(graph: ir.Graph, nodes: Nodes) -> None:
    """Removes nodes, of which also the bodies that they hold read nothing any more."""
    for node in nested(nodes):
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
    graph.remove(nodes)


def _call(
    graph: ir.Graph,
    function: tuple[str, str],
    level: int,
    nodes: Nodes,
    inputs: Sequence[ir.Value],
    results: Sequence[ir.Value],
) -> ir.Node:
    """The node of a call. What uses the results outside uses those of the node from here on."""
    path, own = region_of(nodes[0]), set(nested(nodes))
    outputs = [ir.Value(name=value.name, type=value.type, shape=value.shape) for value in results]
    for old, new in zip(results, outputs, strict=True):
        new.meta.update(old.meta)
        new.metadata_props.update(old.metadata_props)
        for use in [use for use in old.uses() if use.node not in own]:
            use.node.replace_input_with(use.idx, new)
        for position, value in enumerate(graph.outputs):
            if value is old:
                graph.outputs[position] = new
    call = ir.Node(*function, inputs, outputs=outputs, name=f"{function[1]}/{path[level - 1].number}")
    call.meta[REGION] = path[: level - 1]
    if (place := path[level - 1].place) is not None:
        call.metadata_props[PLACE] = str(place)
    return call


def _read_instead(nodes: Nodes, formals: Mapping[ir.Value, ir.Value]) -> None:
    for node in nested(nodes):
        for index, value in enumerate(node.inputs):
            if value is not None and value in formals:
                node.replace_input_with(index, formals[value])
