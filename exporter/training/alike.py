"""Parameters that an optimizer updates alike: one update is traced, and the graph of the others is made from its nodes.

PyTorch's optimizers update each parameter by itself: the new value and state depend on the parameter, its gradient and
state, and on the settings of its group. A step has as many updates as parameters, of which a trace would see each.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, optim
from torch.fx import Graph, GraphModule, Node

from fxport.exporter.training.optimizers import State, stepped
from fxport.exporter.training.own_tensors import OwnTensors
from fxport.fx_passes.graph import fake_mode_of, replace, run_fake

T = TypeVar("T")

ELEMENTWISE: frozenset[type[optim.Optimizer]] = frozenset(
    {
        *(optim.SGD, optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta),
        *(optim.RMSprop, optim.ASGD),
    }
)
"""Optimizers that compute each element of a parameter by itself: the shape makes no difference to their graph."""

BY_SHAPE: frozenset[type[optim.Optimizer]] = frozenset({optim.Adafactor, optim.Muon, optim.Rprop})
"""Optimizers whose graph depends on the shape of a parameter, as that of a write to selected elements does."""

_LIBRARY = torch.library.Library("fxport", "FRAGMENT")
for _name in ("update_begins", "update_ends"):
    _LIBRARY.define(f"{_name}(Tensor[] tensors, int number) -> Tensor[]")
_LIBRARY.define("update_alike(Tensor[] tensors, int number, int parameters, bool whole) -> Tensor[]")


@torch.library.register_fake("fxport::update_begins", lib=_LIBRARY)
@torch.library.register_fake("fxport::update_ends", lib=_LIBRARY)
def _same(tensors: list[Tensor], number: int) -> list[Tensor]:
    return [torch.empty_like(each) for each in tensors]


@torch.library.register_fake("fxport::update_alike", lib=_LIBRARY)
def _updated(tensors: list[Tensor], number: int, parameters: int, whole: bool) -> list[Tensor]:
    if not whole:
        return [torch.empty(())]
    return [
        torch.empty_like(each)
        for parameter, _gradient, *state in in_parts(tensors, parameters)
        for each in (parameter, *state)
    ]


BEGINS, ENDS, ALIKE = torch.ops.fxport.update_begins, torch.ops.fxport.update_ends, torch.ops.fxport.update_alike
"""Marks in a trace: what a traced update is given, and what it comes to; and updates like that one, in one call.

Updates of which only the results of the trace are made are one tensor there, which stands for each.
"""

BINDINGS = "unbacked_bindings"
"""Key of `node.meta`: the symbols of numbers that a node reads from tensors."""


def is_known(optimizer: optim.Optimizer) -> bool:
    """Return True for an optimizer of PyTorch's own that updates each parameter by itself, without hooks."""
    kind = type(optimizer)
    hooks = (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks)
    own = kind.step.__module__.startswith("torch.optim.")
    return kind in ELEMENTWISE | BY_SHAPE and own and not any(hooks)


@dataclass
class Alike:
    """The updates of a trace, of which one is traced for many.

    Attributes:
        numbers: Gives each traced update its number.
        results: By the number of an update, the names of what those like it come to: a parameter's own, or with that of
            its state. They are one tensor in the trace.
    """

    numbers: Iterator[int] = field(default_factory=itertools.count)
    results: dict[int, list[tuple[str, str | None]]] = field(default_factory=dict)


def stepped_alike(
    optimizer: optim.Optimizer,
    names: Mapping[int, str],
    parameters: dict[str, Tensor],
    state: State,
    learning_rates: Mapping[int, Tensor],
    own: OwnTensors,
    alike: Alike,
    groups: Sequence[Sequence[str]],
    gradients: Mapping[str, Tensor],
    last: bool,
) -> State:
    """Do what `stepped` does; in a trace, one update stands for all that are like it, until `expand`.

    Values in `parameters` are changed in place, or replaced.

    Args:
        optimizer: Makes the updates.
        names: The names of its parameters, by id.
        parameters: Their values; those that are in no group have their gradients in `.grad`.
        state: Their state, by name.
        learning_rates: Those of the groups of parameters.
        own: The tensors of the step.
        alike: The updates of the trace.
        groups: The names of parameters whose updates are like each other.
        gradients: Those of the parameters.
        last: The results are those of the trace, and nothing reads them.
    """
    chosen, held = dict(parameters), dict(state)
    marked = [(next(alike.numbers), each) for each in groups]
    tensors = {
        name: [parameters[name], gradients[name], *state.get(name, {}).values()] for each in groups for name in each
    }
    for number, (first, *others) in marked:
        chosen[first], chosen[first].grad, *values = BEGINS(tensors[first], number)
        held |= {first: dict(zip(state.get(first, {}), values, strict=True))}
        for name in others:
            del chosen[name]
    new = stepped(optimizer, names, chosen, held, learning_rates, own)
    for number, (first, *others) in marked:
        keys = tuple(state.get(first, {}))
        results = {first: ENDS([chosen[first], *(new[first][key] for key in keys)], number)}
        given = [each for name in others for each in tensors[name]]
        made = ALIKE(given, number, len(others), not last)
        if last:
            alike.results[number] = [(name, key) for name in others for key in (None, *keys)]
            made = made * len(alike.results[number])
        results |= zip(others, in_parts(made, len(others)), strict=True)
        for name, (parameter, *values) in results.items():
            parameters[name] = parameter
            new |= {name: dict(zip(keys, values, strict=True))} if keys else {}
    return new


def groups_alike(
    optimizer: optim.Optimizer,
    names: Mapping[int, str],
    parameters: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    state: State,
) -> list[list[str]]:
    """Return the names of parameters whose updates have the same graph, where there are several; none in eager mode."""
    if not torch.compiler.is_compiling() or not is_known(optimizer):
        return []
    found: dict[Hashable, list[str]] = {}
    for index, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            name = names[id(parameter)]
            key = kind_of_update(optimizer, index, parameters[name], gradients.get(name), state.get(name, {}))
            found.setdefault(name if key is None else key, []).append(name)
    return [each for each in found.values() if len(each) > 1]


def kind_of_update(
    optimizer: optim.Optimizer, group: int, parameter: Tensor, gradient: Tensor | None, state: Mapping[str, Tensor]
) -> Hashable | None:
    """Return a key that parameters have in common whose updates have the same graph; None without a gradient."""
    if gradient is None:
        return None
    held = [(key, value.dtype, None if value.shape == parameter.shape else value.shape) for key, value in state.items()]
    shape = None if type(optimizer) in ELEMENTWISE and parameter.dim() else parameter.shape
    return (group, parameter.dtype, gradient.dtype, parameter.device, shape, *held)


def in_parts(values: Sequence[T], count: int) -> list[Sequence[T]]:
    """Divide a sequence into so many of equal length."""
    size = len(values) // count
    return [values[start : start + size] for start in range(0, len(values), size)]


def expand(gm: GraphModule, alike: Alike, place_of: Callable[[str, str | None], int], count: int) -> None:
    """Replace each update that is like a traced one by copies of its nodes, and drop the marks.

    Args:
        gm: The graph of the trace.
        alike: The updates of the trace.
        place_of: Returns the place among the results of the trace of a new parameter, or of its state.
        count: How many results there are.
    """
    found = {mark: _calls(gm, mark) for mark in (BEGINS, ENDS, ALIKE)}
    begins, ends = ({node.args[1]: node for node in found[mark]} for mark in (BEGINS, ENDS))
    updates = {number: _Update(begins[number], ends[number]) for number in begins}
    results: dict[int, Node] = {}
    for node in found[ALIKE]:
        tensors, number, parameters, whole = node.args
        parts = in_parts(tensors, parameters)  # type: ignore[arg-type]  # a list of nodes and a number
        with fake_mode_of([each.meta["val"] for each in parts[0]]):
            made = [each for part in parts for each in updates[number].copied(node, part)]
        if whole:
            _use(node, made)
        else:
            results |= zip((place_of(*each) for each in alike.results[number]), made, strict=True)  # type: ignore[index]
    if results:
        output = gm.graph.output_node()
        given: Any = output.args[0]
        first = len(given) - count
        output.args = (type(given)(results.get(place - first, each) for place, each in enumerate(given)),)
        for node in found[ALIKE]:
            _use(node, ())
    for node in (*ends.values(), *begins.values()):
        _use(node, node.args[0])  # type: ignore[arg-type]  # its first argument is a list of nodes


def _calls(gm: GraphModule, mark: Any) -> list[Node]:
    return [node for node in gm.graph.nodes if node.target is mark.default]


def _parts(node: Node) -> dict[int, Node]:
    """Return the tensors that a call returns, by their place."""
    return {user.args[1]: user for user in node.users if user.target is operator.getitem}  # type: ignore[misc]


def _use(node: Node, values: Sequence[Node]) -> None:
    """Make uses of what a call returns uses of other nodes, and erase it. Where there are none, it has no uses left."""
    for place, part in _parts(node).items():
        if values:
            replace(part, values[place])
        else:
            part.graph.erase_node(part)
    node.graph.erase_node(node)


class _Update:
    """The nodes of a traced update that depend on the parameter, its gradient or its state.

    Attributes:
        given: The nodes of what the update is given, by their place.
        results: The nodes of what it comes to.
        shape: The shape of the parameter.
        nodes: The nodes between.
        values: The fake values of copies of the nodes for parameters of other shapes.
    """

    def __init__(self, begin: Node, end: Node) -> None:
        self.given = _parts(begin)
        self.results: list[Node] = end.args[0]  # type: ignore[assignment]  # a list of nodes
        self.shape = begin.args[0][0].meta["val"].shape  # type: ignore[index, union-attr]  # a list of nodes
        inside, between = set(self.given.values()), begin
        self.nodes: list[Node] = []
        self.values: dict[tuple[Node, Hashable], Tensor] = {}
        while (between := between.next) is not end:
            if between not in inside and not inside.isdisjoint(between.all_input_nodes):
                inside.add(between)
                self.nodes.append(between)

    def copied(self, before: Node, tensors: Sequence[Node]) -> list[Node]:
        """Copy the nodes before another node, for an update of other tensors; return what it comes to.

        It runs in the fake mode of the trace.
        """
        graph: Graph = before.graph
        parameter = tensors[0].meta["val"]
        alike, axes = parameter.shape == self.shape, (tuple(parameter.shape), parameter.stride(), parameter.device)
        copies: set[Node] = set()
        other = {part: tensors[place] for place, part in self.given.items()}
        with graph.inserting_before(before):
            for node in self.nodes:
                new = graph.node_copy(node, lambda each: other.get(each, each))
                if not isinstance(node.meta["val"], Tensor):
                    self._count_anew(new, copies)
                elif not alike:
                    if (node, axes) not in self.values:
                        self.values[node, axes] = self._value(node, parameter)
                    new.meta["val"] = self.values[node, axes]
                    new.meta.pop("tensor_meta", None)
                other[node] = new
                copies.add(new)
        return [other.get(node, node) for node in self.results]

    def _count_anew(self, new: Node, copies: Collection[Node]) -> None:
        """Give a copy that is a number a symbol of its own: a fake tensor gives the same one again."""
        for node in new.all_input_nodes:
            value = node.meta["val"]
            if node in copies and isinstance(value, Tensor):
                node.meta["val"] = torch.empty_like(value)
        new.meta["val"] = run_fake(new.target, new.args, dict(new.kwargs))
        if BINDINGS in new.meta:
            new.meta[BINDINGS] = {new.meta["val"].node.expr: ()}

    def _value(self, node: Node, parameter: Tensor) -> Tensor:
        """Return the fake value of a copy for a parameter of another shape. Raises AssertionError for any other."""
        value = node.meta["val"]
        if any(isinstance(each, list | tuple) for each in node.args) or value.shape not in (self.shape, ()):
            raise AssertionError(f"'{node.target}' in an update of single elements depends on the shape")
        return value if value.shape == () else torch.empty_like(parameter, dtype=value.dtype)
