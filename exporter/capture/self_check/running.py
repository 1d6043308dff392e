"""A captured graph run by PyTorch, with note of the bodies of control flow that run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from fxport.diagnostics import Log
from fxport.exporter.capture.annotations import CHOSEN
from fxport.fx_passes import run_passes
from fxport.fx_passes.graph import bodies
from fxport.fx_passes.pipeline import PREPARE
from fxport.fx_passes.program import OutputKind, Program
from fxport.fx_passes.scans import SCAN

COPYING = (torch.ops.aten.clone.default, torch.ops.aten.alias.default, torch.ops.aten.detach.default)
"""Ops that return their argument."""


def prepared(program: Program) -> Program:
    """Return a copy of a captured program, whose writes are values."""
    return run_passes(replace(program, graph_module=copy.deepcopy(program.graph_module)), PREPARE, Log())


def written_to(program: Program) -> set[str]:
    """Return the paths of the module's tensors to which a prepared program writes."""
    updated = {output.updates for output in program.outputs if output.kind is OutputKind.MUTATION}
    return {entry.target for entry in program.inputs if entry.target and entry.name in updated}


LOOPS = (SCAN, torch.ops.higher_order.while_loop)
"""Operators that run a body in turns."""


class Recorder(Interpreter):
    """Run a graph, and note which bodies of its control flow run.

    Args:
        gm: The graph, whose writes are values.
        reached: Gets the bodies that run, at any depth.
    """

    def __init__(self, gm: GraphModule, reached: set[GraphModule]) -> None:
        super().__init__(gm)
        self.reached = reached

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return an attribute of the graph module; a body as a function that notes its calls."""
        value = super().get_attr(target, args, kwargs)
        return _Called(value, self.reached) if isinstance(value, GraphModule) else value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function, or what runs in its place."""
        return super().call_function(IN_PLACE_OF.get(target, target), args, kwargs)


@dataclass(frozen=True, slots=True)
class _Called:
    gm: GraphModule
    reached: set[GraphModule]

    def __call__(self, *args: Any) -> Any:
        self.reached.add(self.gm)
        return self.results(*args)

    @property
    def count(self) -> int:
        """The number of results."""
        return len(self.gm.graph.output_node().args[0])  # type: ignore[arg-type]  # a body gives a tuple

    @property
    def captured(self) -> list[Tensor] | None:
        """Tensors of the sizes that the results were captured with; None if one of these is dynamic."""
        given: Any = self.gm.graph.output_node().args[0]
        results = [each.meta["val"] for each in given]
        if not all(isinstance(each, Tensor) and all(isinstance(n, int) for n in each.shape) for each in results):
            return None
        return [torch.empty(each.shape, dtype=each.dtype) for each in results]

    def results(self, *args: Any, reached: set[GraphModule] | None = None) -> Any:
        """Return what the body gives, as tensors of their own: operators of control flow allow no aliases."""
        results = Recorder(self.gm, self.reached if reached is None else reached).run(*args)
        return pytree.tree_map_only(Tensor, lambda each: each.resolve_conj().resolve_neg(), results)


def _scan(body: _Called, init: Sequence[Any], xs: Sequence[Tensor], additional_inputs: Sequence[Any] = ()) -> list[Any]:
    """Run torch.ops.higher_order.scan along axis 0; without rows, one iteration on zeros tells shapes."""
    carried, stacked = [*init], list[list[Any]]()
    for row in zip(*xs, strict=True):
        results = body(*carried, *row, *additional_inputs)
        carried = [*results[: len(init)]]
        stacked.append([*results[len(init) :]])
    if stacked or body.count == len(init):
        return [*carried, *(torch.stack([*map(torch.as_tensor, each)]) for each in zip(*stacked, strict=True))]
    empty = [x.new_zeros(x.shape[1:]) for x in xs]
    try:
        rows = body.results(*init, *empty, *additional_inputs, reached=set())[len(init) :]
    except (IndexError, RuntimeError):  # it reads what is there only where there are rows
        if (captured := body.captured) is None:
            raise
        rows = captured[len(init) :]
    return [*carried, *(torch.as_tensor(each).new_empty((0, *torch.as_tensor(each).shape)) for each in rows)]


IN_PLACE_OF: Mapping[Any, Callable[..., Any]] = {
    SCAN: _scan,
    torch.ops.aten.view.default: torch.ops.aten.reshape.default,
    torch.ops.aten._unsafe_view.default: torch.ops.aten.reshape.default,
}
"""Functions that run in the place of others.

A scan makes no trial iteration, by which PyTorch learns the shapes of its results. Kernels give other strides than fake
tensors have, as attention does on a CPU, and a view that the capture has for them need not be one of real memory; where
writes are values, a copy is as good.
"""


@dataclass(frozen=True, slots=True)
class Body:
    """A body of control flow.

    Attributes:
        gm: The body.
        node: The node that runs it.
        top: The node of the whole graph around it.
        around: The body around it.
        loop: The innermost loop around `node`.
    """

    gm: GraphModule
    node: Node
    top: Node
    around: GraphModule | None
    loop: Node | None = None

    @property
    def computes(self) -> bool:
        """True if the graph does more than return its inputs."""
        calls = (node for node in self.gm.graph.nodes if node.op == "call_function")
        return any(node.target not in COPYING for node in calls)

    def is_before(self, other: Body) -> bool:
        """Return whether its node is that of a first turn, in front of a loop whose turns have the node of `other`."""
        one, turns = self.node.meta.get("stack_trace"), other.node.meta.get("stack_trace")
        if one is None or one != turns or other.loop is None or other.loop.graph is not self.node.graph:
            return False  # of another statement, or in another call
        return self.node < other.loop


def bodies_of(
    gm: GraphModule, top: Node | None = None, around: GraphModule | None = None, loop: Node | None = None
) -> Iterator[Body]:
    """Yield the bodies of control flow at any depth, outer ones first."""
    for name, body in bodies(gm):
        users = [user for node in gm.graph.find_nodes(op="get_attr", target=name) for user in node.users]
        for user in users[:1]:
            yield Body(body, user, top or user, around, loop)
            yield from bodies_of(body, top or user, body, user if user.target in LOOPS else loop)


def words_of(body: Body) -> str:
    """Return what a body is: a branch of a condition, or what a loop repeats."""
    if body.node.target is not torch.ops.higher_order.cond:
        return "The body of this loop"
    names = [getattr(each, "target", None) for each in body.node.args[1:3]]
    owner = body.node.graph.owning_module
    is_true = owner is not None and isinstance(names[0], str) and owner.get_submodule(names[0]) is body.gm
    if (numbers := body.node.meta.get(CHOSEN)) is not None:
        first, middle, end = numbers
        first, last = (first, middle - 1) if is_true else (middle, end - 1)
        return f"What is at index {first}" if first == last else f"What is at indices {first} to {last}"
    return f"The branch in which this condition is {'true' if is_true else 'false'}"
